/** Reads the messages of a language server: each of bounded size, and no more of them ahead than are worked on. */
import type { Readable } from 'node:stream';
import { AbstractMessageReader, type DataCallback, type Disposable, type Message } from 'vscode-jsonrpc/node';
import { parseHeld } from '../json-crowd.ts';

/** The answer about all symbols of a large project has some megabytes. */
const mostMessageBytes = 32 * 1024 ** 2;
/** What stands before a message and is none: a line that a program prints by mistake. */
const mostStrayBytes = 64 * 1024;
const mostAhead = 500;
const headerEnd = '\r\n\r\n';

/** Stops reading, with an error, at what is no message; stops for a while where too many wait to be worked on. */
export class BoundedMessageReader extends AbstractMessageReader {
  readonly #stream: Readable;
  readonly #received: (message: Message) => void;
  #chunks: Buffer[] = [];
  #size = 0;
  /** How many bytes have to be there before it is worth looking at them again. */
  #wanted = 1;
  /** Of the messages that may wait: which one was read last, and which was last worked on. */
  #read = 0;
  #worked = 0;
  /** The library takes them in their order, and passes over some: so their numbers are compared, and not counted. */
  readonly #numbers = new WeakMap<Message, number>();
  #callback: DataCallback = () => undefined;

  /** `received` hears of each message as it comes. */
  constructor(stream: Readable, received: (message: Message) => void) {
    super();
    this.#stream = stream;
    this.#received = received;
  }

  override listen(callback: DataCallback): Disposable {
    this.#callback = callback;
    const onData = (chunk: Buffer) => this.#take(chunk);
    const onEnd = () => this.fireClose();
    this.#stream.on('data', onData).once('close', onEnd).once('end', onEnd);
    // A pipe that breaks is an end like any other.
    this.#stream.on('error', onEnd);
    return { dispose: () => void this.#stream.off('data', onData) };
  }

  /** A message is being worked on. */
  handled(message: Message): void {
    this.#worked = Math.max(this.#worked, this.#numbers.get(message) ?? 0);
    if (this.#ahead() < mostAhead / 2 && this.#stream.isPaused()) this.#stream.resume();
  }

  #ahead(): number {
    return this.#read - this.#worked;
  }

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#size < this.#wanted) return;
    try {
      const left = this.#deliver(Buffer.concat(this.#chunks, this.#size));
      this.#chunks = left.length > 0 ? [left] : [];
      this.#size = left.length;
    } catch (error) {
      this.#stream.destroy();
      this.#chunks = [];
      this.fireError(error);
    }
    if (this.#ahead() > mostAhead) this.#stream.pause();
  }

  /** Hands on every whole message; what is left of the bytes is the beginning of the next. */
  #deliver(bytes: Buffer): Buffer {
    let rest = bytes;
    for (;;) {
      const header = readHeader(rest);
      if (header === null) {
        this.#wanted = rest.length + 1;
        return rest;
      }
      const end = header.bodyAt + header.bodyBytes;
      if (rest.length < end) {
        this.#wanted = end;
        return rest;
      }
      const message = parseMessage(rest.subarray(header.bodyAt, end));
      rest = rest.subarray(end);
      if (mayWait(message)) this.#numbers.set(message, ++this.#read);
      this.#received(message);
      this.#callback(message);
    }
  }
}

/** Answers are worked on at once, and mostly what takes a question back. */
function mayWait(message: Message): boolean {
  return 'method' in message && message.method !== '$/cancelRequest';
}

function readHeader(bytes: Buffer): { readonly bodyAt: number; readonly bodyBytes: number } | null {
  const end = bytes.subarray(0, mostStrayBytes).indexOf(headerEnd);
  if (end < 0) {
    if (bytes.length >= mostStrayBytes) throw new Error('what it writes is no message');
    return null;
  }
  const [, length] = /Content-Length: *(\d{1,12})/i.exec(bytes.toString('latin1', 0, end)) ?? [];
  if (length === undefined) throw new Error('what it writes is no message');
  const bodyBytes = Number(length);
  if (bodyBytes > mostMessageBytes) throw new Error(`a message of ${bodyBytes} bytes is too large`);
  return { bodyAt: end + headerEnd.length, bodyBytes };
}

function parseMessage(body: Buffer): Message {
  const message: unknown = parseHeld(body.toString('utf8'));
  if (typeof message !== 'object' || message === null || !('jsonrpc' in message))
    throw new Error('what it writes is no message');
  return message as Message; // it says so itself; what else is in it is checked where it is read
}
