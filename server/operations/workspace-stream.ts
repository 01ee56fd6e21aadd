/** Follows the events of a workspace in the store, where every node writes them. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServerEvent, Services } from '../handler.ts';

/** What one look at the store takes at the most: one event may hold a whole file. */
const batchSize = 16;
/** How long to trust silence: no node tells the others. */
const pollMs = 500;
/** After how long a reader to whom nothing fits is told how far it is: its last number expires with the event. */
const passedMs = 60_000;

export interface WorkspaceStream {
  readonly workspaceId: string;
  /** The number of the last event already seen. */
  readonly after: number;
  /** Whether the stream says first where it begins. */
  readonly opened: boolean;
  /** False replays what is stored and ends. */
  readonly follow: boolean;
  readonly filter: { readonly types: readonly string[] | undefined; readonly sessionId: string | undefined };
  readonly signal: AbortSignal;
}

/** Every event behind the cursor that fits, once and in order. */
export async function* followWorkspace(
  { workspaceId, after, opened, follow, filter, signal }: WorkspaceStream,
  { store, clock }: Pick<Services, 'store' | 'clock'>,
): AsyncGenerator<ServerEvent> {
  const data = { workspace_id: workspaceId };
  if (opened) yield { name: 'opened', seq: after, data };
  let cursor = after;
  let told = { seq: after, at: clock.now() };
  while (!signal.aborted) {
    const { events, through } = await store.workspaceEvents.read(workspaceId, cursor, filter, batchSize);
    for (const event of events) yield { name: 'workspace', ...event };
    const more = through > cursor;
    cursor = through;
    const last = events.at(-1);
    if (last) told = { seq: last.seq, at: clock.now() };
    if (follow && cursor > told.seq && clock.now().getTime() - told.at.getTime() >= passedMs) {
      yield { name: 'passed', seq: cursor, data };
      told = { seq: cursor, at: clock.now() };
    }
    if (more) continue;
    if (!follow) return;
    // Ends at once when the reader goes; that it does is no failure.
    await sleep(pollMs, undefined, { signal }).catch(() => undefined);
  }
}
