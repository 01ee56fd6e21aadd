/** One run at a time in a session, also where each is in a process of its own. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceClient } from '@service/client';
import type { Session } from '@service/client/api';

const lookMs = 250;

/**
 * Waits until no run is at work in the session. A server lets the runs that it was asked for go one after the other; of
 * those in other processes with the same database it knows, and does not wait for them.
 * @param onWait - Called once, if there is anything to wait for.
 */
export async function awaitTurn(
  client: ServiceClient,
  session: Session,
  { stop, onWait }: { readonly stop: AbortSignal; readonly onWait: () => void },
): Promise<void> {
  const params = { path: { session_id: session.id } };
  if (session.status !== 'idle') onWait();
  for (let now = session; now.status !== 'idle'; ) {
    await sleep(lookMs, undefined, { signal: stop });
    now = (await client.GET('/api/v1/sessions/{session_id}', { params, signal: stop })).data;
  }
}
