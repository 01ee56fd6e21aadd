/** A server that is a process of ours: messages over its standard input and output, its complaints into the log. */

import { setTimeout as delay } from 'node:timers/promises';
import {
  type JSONRPCMessage,
  ReadBuffer,
  type RequestId,
  serializeMessage,
  type Transport,
} from '@modelcontextprotocol/client';
import type { Log } from '../../log.ts';
import { processStat } from '../../process-stat.ts';
import { readPaced } from '../commands/paced-output.ts';
import { JsonCrowd } from '../json-crowd.ts';
import { type ProcessGroup, startGroup } from '../processes/process-group.ts';
import { McpFailure } from './failure.ts';

/** How the process is started. */
export interface StdioCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Whether `file` only starts the real one. */
  readonly wrapped: boolean;
  /** Written to the process's third further descriptor at once; null where it has none. */
  readonly sealedEnvironment: string | null;
  /** To be called once every process has ended. */
  release(): void;
}

const largestMessageBytes = 10 * 1024 ** 2;
/** What a piece of a line takes besides its bytes. */
const pieceBytes = 64;
/** A server that has said so much and answered nothing will not. */
const mostUnaskedBytes = 32 * 1024 ** 2;
const mostLoggedBytes = 256 * 1024;
const lastWordsLength = 2000;
/** For each of: noticing that its input has ended, and heeding the signal. */
const graceMs = 400;
const drainMs = 200;
/** How long a program may take to end behind its output. */
const silenceMs = 2000;
const lineFeed = 0x0a;

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #command: StdioCommand;
  readonly #log: Log;
  readonly #hear: (lastWords: string) => void;
  /** Whole lines. */
  readonly #buffer = new ReadBuffer({ maxBufferSize: largestMessageBytes });
  /** The beginning of a line that has not ended. */
  #line: Buffer[] = [];
  #lineBytes = 0;
  readonly #values = new JsonCrowd();
  readonly #unanswered = new Set<RequestId>();
  #group: ProcessGroup | null = null;
  #unaskedBytes = 0;
  #loggedBytes = 0;
  #lastWords = '';
  #fault: McpFailure | null = null;
  #closing: Promise<void> | null = null;

  /** @param hear - Told the end of what it wrote to standard error: for the eyes of whoever configured it. */
  constructor(command: StdioCommand, log: Log, hear: (lastWords: string) => void) {
    this.#command = command;
    this.#log = log;
    this.#hear = hear;
  }

  /** Why it ended; null while it runs, or where we ended it. */
  get fault(): McpFailure | null {
    return this.#fault;
  }

  get pid(): number | null {
    return this.#group?.child.pid ?? null;
  }

  async start(): Promise<void> {
    const { sealedEnvironment } = this.#command;
    const further = sealedEnvironment === null ? [] : ['pipe' as const];
    const group = startGroup({ ...this.#command, stdio: ['pipe', 'pipe', 'pipe', ...further] });
    this.#group = group;
    const { child } = group;
    // Whether the pipe broke is of no interest: the end of the process tells.
    child.stdin?.on('error', () => undefined);
    child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk));
    child.stdout?.once('end', () => void this.#silenced());
    if (child.stderr) readPaced(child.stderr, (chunk) => this.#listen(chunk));
    // Without pipes it could not be started at all.
    const sealed = child.stdio?.[3];
    if (sealed && 'end' in sealed) sealed.on('error', () => undefined).end(sealedEnvironment);
    const spawned = Promise.withResolvers<void>();
    child.once('spawn', spawned.resolve);
    group.exited.then(
      () => this.#ended(),
      (error: unknown) => {
        spawned.reject(error);
        this.#command.release();
      },
    );
    await spawned.promise;
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#group?.child.stdin;
    if (this.#fault) throw this.#fault;
    if (!stdin?.writable || this.#closing !== null) throw new McpFailure('it is not running');
    if (stdin.writableLength > largestMessageBytes) throw new McpFailure('it does not read what it is sent');
    if ('method' in message && 'id' in message) this.#unanswered.add(message.id);
    stdin.write(serializeMessage(message));
  }

  async close(): Promise<void> {
    this.#closing ??= this.#end();
    return await this.#closing;
  }

  #read(chunk: Buffer): void {
    if (this.#closing !== null) return;
    this.#unaskedBytes += chunk.length;
    const crowded = this.#values.isIn(chunk);
    this.#line.push(chunk);
    this.#lineBytes += chunk.length + pieceBytes;
    if (crowded || this.#lineBytes > largestMessageBytes) {
      this.#fail(`it sent a message of more ${crowded ? 'values than can be held' : 'than 10 MB'}`);
      return;
    }
    // A line that comes in many pieces is not put together again with each of them.
    const end = chunk.lastIndexOf(lineFeed) + 1;
    if (end === 0) return;
    const bytes = Buffer.concat(this.#line);
    const begun = chunk.subarray(end);
    this.#buffer.append(bytes.subarray(0, bytes.length - begun.length));
    this.#line = [begun];
    this.#lineBytes = begun.length;
    this.#values.restart();
    this.#values.isIn(begun);
    for (let message = this.#next(); message; message = this.#next()) {
      if ('id' in message && !('method' in message) && this.#unanswered.delete(message.id ?? ''))
        this.#unaskedBytes = 0;
      this.onmessage?.(message);
    }
    if (this.#unaskedBytes > mostUnaskedBytes) this.#fail('it writes without end, and answers nothing');
  }

  /** What is no message is passed over: some servers print a greeting first. */
  #next(): JSONRPCMessage | null {
    for (;;) {
      try {
        return this.#buffer.readMessage();
      } catch (error) {
        this.#log.debug({ err: error }, 'an MCP server wrote a line that is no message');
      }
    }
  }

  #listen(chunk: Buffer): void {
    this.#lastWords = (this.#lastWords + chunk.toString('utf8')).slice(-lastWordsLength);
    this.#hear(this.#lastWords);
    if (this.#loggedBytes > mostLoggedBytes) return;
    this.#loggedBytes += chunk.length;
    this.#log.debug({ stderr: chunk.toString('utf8').slice(0, 4000) }, 'an MCP server complains');
  }

  async #ended(): Promise<void> {
    if (this.#closing !== null) return;
    const { child } = this.#group ?? {};
    // What it wrote last may still be on its way.
    await delay(drainMs, undefined, { ref: false });
    const { exitCode, signalCode } = child ?? {};
    this.#fail(
      exitCode === null ? `the signal ${signalCode} ended it` : `it ended with exit code ${exitCode}`,
    );
  }

  /** A program that lives on behind a closed output answers nobody any more. */
  async #silenced(): Promise<void> {
    await delay(silenceMs, undefined, { ref: false });
    // Of one that has ended in between the end is told.
    if (this.pid === null || processStat(this.pid)?.ended) return;
    this.#fail('it has closed its output');
  }

  #fail(why: string): void {
    if (this.#fault || this.#closing !== null) return;
    this.#fault = new McpFailure(why);
    this.onerror?.(this.#fault);
    void this.close();
  }

  async #end(): Promise<void> {
    const group = this.#group;
    this.#buffer.clear();
    if (!group) return this.#command.release();
    const { child } = group;
    // By the protocol the end of its input is what tells a server to go.
    child.stdin?.end();
    const gone = group.exited.catch(() => undefined);
    await Promise.race([gone, delay(graceMs, undefined, { ref: false })]);
    if (child.exitCode === null && child.signalCode === null)
      await group.endPolitely(graceMs).catch(() => undefined);
    await group.endCertainly().catch(() => undefined);
    for (const stream of child.stdio) stream?.destroy();
    this.#command.release();
    this.onclose?.();
  }
}
