/** Answers that are kept for a request that comes again: sealed, since they may hold a secret that is shown once. */
import type { Clock } from '../clock.ts';
import { parseExact } from '../exact-json.ts';
import type { Sealing } from './sealing.ts';

/** What the store keeps of a request. */
interface RequestRecord {
  readonly principalId: string;
  readonly userId: string;
  readonly key: string;
  readonly fingerprint: string;
}

/** Which one it is. */
type RequestPlace = Pick<RequestRecord, 'principalId' | 'key'>;

/** An answer; `type` and `headers` as they go out. */
export interface KeptReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, unknown>> | undefined;
  readonly type?: string | undefined;
  readonly body?: unknown;
}

interface Outcome<Reply> {
  readonly fingerprint: string;
  readonly runId: string | null;
  readonly reply: Reply | null;
}

/** What is needed of a store; its `keptRequests` fits. */
export interface RequestRecords {
  find(request: RequestPlace): Promise<Outcome<string> | null>;
  once<T>(
    request: RequestRecord,
    work: () => Promise<T>,
    keep: (answer: T) => string | null,
  ): Promise<T | null>;
  /** Commits what `once` has written so far, with an answer that stands until `once` has its own. */
  commitWith(request: RequestRecord, reply: string): Promise<void>;
  /** Calls once `once` has committed what it has written so far, or at once outside of it. */
  whenCommitted(work: () => void): void;
  add(request: RequestRecord, reply: string): Promise<void>;
}

/** Commits what was written, with what stands until its maker has more to say, and hidden that long. */
export type KeepMeanwhile<Answer> = (answer: Answer, hiddenMs: number) => Promise<void>;

export interface KeptRequests {
  find(request: RequestPlace): Promise<Outcome<KeptReply> | null>;
  once<Reply extends KeptReply>(request: RequestRecord, work: () => Promise<Reply>): Promise<Reply | null>;
  /** Before something that takes long: an answer that counts where the process dies, and is hidden that long. */
  keepMeanwhile(request: RequestRecord, reply: KeptReply, hiddenMs: number): Promise<void>;
  add(request: RequestRecord, reply: KeptReply): Promise<void>;
}

/** As it is sealed. */
interface SealedReply extends KeptReply {
  readonly hidden_until?: number;
}

export function createKeptRequests(records: RequestRecords, sealing: Sealing, clock: Clock): KeptRequests {
  const seal = (
    request: RequestRecord,
    { status, headers, type, body }: KeptReply,
    hidden_until?: number,
  ): string =>
    sealing.seal(Buffer.from(JSON.stringify({ status, headers, type, body, hidden_until })), rowId(request));
  return {
    async find(request) {
      const found = await records.find(request);
      if (!found) return null;
      const reply = found.reply === null ? null : sealing.open(found.reply, rowId(request)).toString('utf8');
      if (reply === null) return { ...found, reply };
      // Nobody but us has sealed it.
      const { hidden_until = 0, ...kept } = parseExact(reply) as SealedReply;
      return { ...found, reply: hidden_until > clock.now().getTime() ? null : kept };
    },
    once: (request, work) =>
      records.once(request, work, (reply) =>
        // The events of a run are kept with the run.
        reply.type === 'text/event-stream' ? null : seal(request, reply),
      ),
    keepMeanwhile: (request, reply, hiddenMs) =>
      records.commitWith(request, seal(request, reply, clock.now().getTime() + hiddenMs)),
    add: (request, reply) => records.add(request, seal(request, reply)),
  };
}

function rowId({ principalId, key }: RequestPlace): string {
  return `kept_requests/${principalId}/${key}`;
}
