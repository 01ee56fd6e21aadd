/** What http/ needs of the rest of the server; app.ts hands in the real things. */
import type { Role } from '../contract/api.ts';
import type { RateClass, Route } from '../contract/routes.ts';
import type { Log } from '../log.ts';
import type { Tracing } from '../tracing.ts';
import type { AnyReply } from './wire.ts';

/** Who calls, as far as the access table asks. */
export interface Caller {
  readonly userId: string;
  readonly operator: boolean;
  readonly credential: 'login' | 'api_key';
  readonly credentialId: string;
  readonly scopes: ReadonlySet<string>;
  /** The least role that the operation asks for where its object belongs; the query holds the caller to it. */
  readonly needs?: Role;
  /** Where the request came from, for the audit log. */
  readonly origin?: Origin | undefined;
}

/** Where a request came from. */
export interface Origin {
  readonly requestId: string;
  /** Null where the connection was gone before anybody asked. */
  readonly address: string | null;
  /** What the caller calls itself. */
  readonly userAgent?: string | null;
  /** Null where the operation needs none, or none that holds came. */
  readonly credential: { readonly kind: 'login' | 'api_key'; readonly id: string } | null;
}

/** The settings that this folder reads. */
export interface HttpSettings {
  /** Whose X-Forwarded-For counts: addresses, ranges, and the names that proxy-addr has for some. */
  readonly trustedProxies: readonly string[];
  readonly corsOrigins: readonly string[];
  readonly debug: boolean;
  readonly metrics: 'public' | 'operator' | 'off';
  readonly docs: 'public' | 'operator' | 'off';
  readonly keepaliveSeconds: number;
  /** How long the reader of a stream may take nothing. */
  readonly stallSeconds: number;
  /** How often somebody may call, by class; a class that is not named is not limited. */
  readonly rateLimits: RatesByClass;
  readonly streamsPerUser: number;
  readonly streamsTotal: number;
  /** Whether every answer is checked against the contract before it is sent. */
  readonly strict: boolean;
}

/** So many requests in so many seconds, for each class of operations. */
type RatesByClass = {
  readonly [Class in Exclude<RateClass, 'none'>]?: { readonly requests: number; readonly seconds: number };
};

/** One finished request, as the metrics count it. */
interface RequestRecord {
  /** The operationId, or `none` where no operation was met. */
  readonly operation: string;
  readonly status: number;
  readonly seconds: number;
  /** A stream is open as long as its run lasts, so its duration says nothing of the server. */
  readonly streamed: boolean;
}

/** The counters that this folder raises. */
export interface HttpMetrics {
  requestEnded(record: RequestRecord): void;
  streamOpened(userId: string): void;
  streamClosed(userId: string): void;
  openStreams(userId: string): number;
  openStreamsInAll(): number;
}

/** A request that was refused, for the audit log. */
export interface Refusal {
  readonly actor: { readonly userId: string | null; readonly origin: Origin };
  readonly action: 'access.refuse' | 'login.refuse';
  readonly target: { readonly type: string; readonly id: string };
  readonly reason: string;
  readonly operation: string;
}

/** A handler's input before its operation is known to the compiler. */
export interface AnyCall {
  readonly path: Readonly<Record<string, unknown>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly cookies: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  readonly principal: Caller | null;
  readonly requestId: string;
  /** The run that the same request has begun before. */
  readonly earlierRun: string | null;
  readonly onceReceived: OnceReceived;
  readonly keepMeanwhile: (reply: AnyReply, hiddenMs: number) => Promise<void>;
  readonly origin: Origin;
  readonly signal: AbortSignal;
  readonly headOnly: boolean;
}

/**
 * Does what follows from a file once its bytes are there, and their hash is known: with an Idempotency-Key once, in one
 * transaction with the answer.
 */
export type OnceReceived = <Reply extends AnyReply>(
  sha256: string,
  work: () => Promise<Reply>,
) => Promise<Reply>;

/** A request that is to have one effect. */
export interface IdempotentRequest {
  readonly principalId: string;
  readonly userId: string;
  readonly key: string;
  /** Of all that it says: another request with its key is a mistake. */
  readonly fingerprint: string;
}

/** What became of an earlier request with a key. */
export interface EarlierRequest {
  readonly fingerprint: string;
  /** The run that it began. */
  readonly runId: string | null;
  readonly reply: AnyReply | null;
}

export interface KeptRequests {
  find(request: Pick<IdempotentRequest, 'principalId' | 'key'>): Promise<EarlierRequest | null>;
  /** Null where another process was faster, and nothing was done here. */
  once<Reply extends AnyReply>(request: IdempotentRequest, work: () => Promise<Reply>): Promise<Reply | null>;
  /** Within `once`: commits what it has written so far, with an answer that is given to nobody before that time. */
  keepMeanwhile(request: IdempotentRequest, reply: AnyReply, hiddenMs: number): Promise<void>;
  add(request: IdempotentRequest, reply: AnyReply): Promise<void>;
}

/** All that a request meets outside this folder. */
export interface Ports {
  readonly settings: HttpSettings;
  readonly log: Log;
  readonly tracing: Tracing;
  readonly metrics: HttpMetrics;
  readonly identity: {
    authenticate(credential: string, address: string | null): Promise<Caller>;
    /** Whether each of these callers, all with one credential, may still do what they could. */
    stillValid(callers: readonly Caller[]): Promise<readonly boolean[]>;
  };
  /** Counts how often somebody calls, on this node or on all of them. */
  readonly counters: {
    counter(limit: {
      readonly name: string;
      readonly most: number;
      readonly seconds: number;
      readonly relaxed: true;
    }): {
      count(
        key: string,
      ): Promise<{ readonly allowed: boolean; readonly remaining: number; readonly resetMs: number }>;
    };
  };
  /** Records that something was refused, without anybody waiting for it. */
  refused(refusal: Refusal): void;
  /** What becomes of requests with an Idempotency-Key. */
  readonly requests: KeptRequests;
  /** Whether the server is stopping. */
  draining(): boolean;
  /** Runs the handler of an operation. */
  perform(route: Route, call: AnyCall): Promise<AnyReply>;
}
