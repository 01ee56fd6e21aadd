/** Answers that are kept for a request that comes again: sealed, since they may hold a secret that is shown once. */
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
  /** Commits what `once` has written so far, before something that takes long. */
  commit(): Promise<void>;
  add(request: RequestRecord, reply: string): Promise<void>;
}

export interface KeptRequests {
  find(request: RequestPlace): Promise<Outcome<KeptReply> | null>;
  once<Reply extends KeptReply>(request: RequestRecord, work: () => Promise<Reply>): Promise<Reply | null>;
  add(request: RequestRecord, reply: KeptReply): Promise<void>;
}

export function createKeptRequests(records: RequestRecords, sealing: Sealing): KeptRequests {
  const seal = (request: RequestRecord, { status, headers, type, body }: KeptReply): string =>
    sealing.seal(Buffer.from(JSON.stringify({ status, headers, type, body })), rowId(request));
  return {
    async find(request) {
      const found = await records.find(request);
      if (!found) return null;
      const reply = found.reply === null ? null : sealing.open(found.reply, rowId(request)).toString('utf8');
      // Nobody but us has sealed it.
      return { ...found, reply: reply === null ? null : (JSON.parse(reply) as KeptReply) };
    },
    once: (request, work) =>
      records.once(request, work, (reply) =>
        // The events of a run are kept with the run.
        reply.type === 'text/event-stream' ? null : seal(request, reply),
      ),
    add: (request, reply) => records.add(request, seal(request, reply)),
  };
}

function rowId({ principalId, key }: RequestPlace): string {
  return `kept_requests/${principalId}/${key}`;
}
