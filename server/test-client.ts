/** Talks to a server that runs as a process, for tests: plain requests, and streams read as they come. */
import type { SnapshotGiven, StreamError } from './contract/api.ts';
import type { NumberedEvent } from './runtime/transcript.ts';

/** An answer with its body as JSON; a test names the type that it expects there. */
export interface Answer<Body> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

/** Any body of the API, as far as tests look into it without naming its type. */
export interface AnyBody {
  readonly id: string;
  readonly code: string;
  readonly detail: string;
}

export interface Client {
  get<Body = AnyBody>(path: string): Promise<Answer<Body>>;
  post<Body = AnyBody>(path: string, body: object): Promise<Answer<Body>>;
  send<Body = AnyBody>(method: string, path: string, body?: object): Promise<Answer<Body>>;
  /** Opens a query or a run's events as a stream. Fails where the answer is none. */
  stream(path: string, body?: object): Promise<TestStream>;
}

/** A stream while it is read. */
export interface TestStream {
  readonly runId: string;
  /** What has arrived so far, comments and the snapshot left out. */
  readonly events: readonly NumberedEvent[];
  /** How the run stood when the stream was resumed. */
  readonly snapshot: SnapshotGiven | null;
  /** Resolves with the first event that fits, from the beginning; fails if the stream ends without. */
  until(fits: (event: NumberedEvent) => boolean): Promise<NumberedEvent>;
  /** Resolves when the stream is over, however: `done` and `error` are among the events or not. */
  readonly ended: Promise<void>;
  close(): void;
}

export function clientOf({ url }: { readonly url: string }, key?: string): Client {
  const request = (method: string, path: string, body?: object, signal?: AbortSignal) =>
    fetch(url + path, {
      method,
      headers: {
        ...(key && { authorization: `Bearer ${key}` }),
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  const send = async <Body>(method: string, path: string, body?: object): Promise<Answer<Body>> => {
    const response = await request(method, path, body);
    const text = await response.text();
    const json: unknown = text === '' ? {} : JSON.parse(text);
    // The server's own tests hold bodies against the contract; here a test says what it expects.
    return { status: response.status, headers: response.headers, body: json as Body };
  };
  return {
    send,
    get: (path) => send('GET', path),
    post: (path, body) => send('POST', path, body),
    async stream(path, body) {
      const leave = new AbortController();
      const response = await request(body ? 'POST' : 'GET', path, body, leave.signal);
      if (response.headers.get('content-type') !== 'text/event-stream' || !response.body)
        throw new Error(`${path} answers ${response.status}: ${await response.text()}`);
      return readStream(response.headers.get('x-run-id') ?? '', response.body, leave);
    },
  };
}

function readStream(runId: string, body: ReadableStream<Uint8Array>, leave: AbortController): TestStream {
  const events: NumberedEvent[] = [];
  let snapshot: SnapshotGiven | null = null;
  const watchers = new Set<() => void>();
  let over = false;
  const wake = () => {
    for (const look of watchers) look();
  };
  const ended = collect(body, (event) => {
    if (event.name === 'runtime' && event.data.type === 'snapshot_given') snapshot = event.data;
    else events.push(event);
    wake();
  }).then(() => {
    over = true;
    wake();
  });
  const until: TestStream['until'] = (fits) =>
    new Promise((resolve, reject) => {
      const look = () => {
        const found = events.find(fits);
        if (!found && !over) return;
        watchers.delete(look);
        if (found) resolve(found);
        else reject(new Error(`The stream ended without it: ${JSON.stringify(events)}`));
      };
      watchers.add(look);
      look();
    });
  return {
    runId,
    events,
    get snapshot() {
      return snapshot;
    },
    until,
    ended,
    close: () => leave.abort(),
  };
}

/** Resolves also where the connection broke: what was received is what counts. */
async function collect(body: ReadableStream<Uint8Array>, add: (event: NumberedEvent) => void): Promise<void> {
  const decoder = new TextDecoder();
  let text = '';
  try {
    for await (const bytes of body) {
      const frames = (text + decoder.decode(bytes, { stream: true })).split('\n\n');
      text = frames.pop() ?? '';
      for (const frame of frames) if (!frame.startsWith(':')) add(parseFrame(frame));
    }
  } catch (error) {
    if (!isBroken(error)) throw error;
  }
}

function isBroken(error: unknown): boolean {
  return error instanceof Error && (error.name === 'AbortError' || error.message === 'terminated');
}

function parseFrame(frame: string): NumberedEvent {
  const fields = new Map(
    frame.split('\n').map((line) => [line.split(': ', 1)[0], line.replace(/^\w+: /, '')]),
  );
  return {
    seq: Number(fields.get('id')),
    name: fields.get('event') ?? 'message',
    data: JSON.parse(fields.get('data') ?? ''),
  } as NumberedEvent; // As the contract describes the streams.
}

/** The sentence of a stream's last `error` event. */
export function errorOf(stream: TestStream): string {
  const last = stream.events.at(-1);
  return last?.name === 'error' ? (last.data satisfies StreamError).error : '';
}

/** The text of an answer, from its chunks. */
export function textOf(events: readonly NumberedEvent[], messageId?: string): string {
  const chunks = events.flatMap(({ name, data }) =>
    name === 'message' && data.type === 'text_delta' ? [data] : [],
  );
  return chunks
    .filter(({ message_id }) => messageId === undefined || message_id === messageId)
    .map(({ text }) => text)
    .join('');
}
