/** Spans: what the server does, as traces tell it. Nothing is kept, sent or even loaded unless the operator asks for traces. */

/** What a span tells of itself: names, numbers and codes, and never what somebody wrote. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | readonly string[]>>;

export interface SpanOptions {
  /** `server` where somebody asks us, `client` where we ask somebody; `internal` if absent. */
  readonly kind?: 'server' | 'client' | 'internal';
  readonly attributes?: SpanAttributes;
  /** The headers of a request that may say whose part this is. */
  readonly from?: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** What lines of the log name, so that they are found beside their trace. */
export interface TraceIds {
  readonly trace_id: string;
  readonly span_id: string;
}

export interface Span {
  /** Names it anew, where what it is was not known at its beginning. */
  name(name: string): void;
  set(attributes: SpanAttributes): void;
  /** Marks it as failed, by a code or a kind of error: messages may quote what somebody wrote. */
  fail(type: string): void;
  /** Whatever `work` begins is part of it. */
  within<T>(work: () => T): T;
  end(): void;
}

export interface Tracing {
  /** Part of the span that this is called within. Whoever begins one ends it. */
  begin(name: string, options?: SpanOptions): Span;
  /** Empty outside of any span. */
  ids(): TraceIds | Record<string, never>;
  /** What a request has to carry so that its receiver goes on with the trace. */
  headers(): Readonly<Record<string, string>>;
  /** Sends what is left, but does not wait for long. */
  close(): Promise<void>;
}

const noSpan: Span = {
  name: () => undefined,
  set: () => undefined,
  fail: () => undefined,
  within: (work) => work(),
  end: () => undefined,
};

/** Where nobody asked for traces. */
export const noTracing: Tracing = {
  begin: () => noSpan,
  ids: () => ({}),
  headers: () => ({}),
  close: async () => undefined,
};

/** A span as long as the work takes; it has failed where the work throws. */
export async function inSpan<T>(
  tracing: Tracing,
  name: string,
  options: SpanOptions,
  work: (span: Span) => Promise<T>,
): Promise<T> {
  const span = tracing.begin(name, options);
  try {
    return await span.within(() => work(span));
  } catch (error) {
    span.fail(errorType(error));
    throw error;
  } finally {
    span.end();
  }
}

/** The code of an error, else what kind it is. */
export function errorType(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
