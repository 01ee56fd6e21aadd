/** Reads documents in processes of their own, a few at a time, within limits of time and memory. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import type { Chunking } from '../../contract/api.ts';
import type { Log } from '../../log.ts';
import { Problem } from '../../problem.ts';
import { processStat } from '../../process-stat.ts';
import type { Chunk } from '../chunk.ts';
import { ParseFailure } from './parse-failure.ts';
import type { DocumentClaims } from './parse-names.ts';
import type { ParsedDocument } from './parsed-document.ts';
import type { ParsingAnswer, ParsingOutcome, ParsingRequest } from './parsing-messages.ts';

export interface Parsed {
  readonly document: ParsedDocument;
  /** None where no chunking was asked for. */
  readonly chunks: Chunk[];
}

/** Whoever waits for a process takes turns by `organizationId`: one that brings much holds up itself. */
export interface Parsers {
  /** Throws `ParseFailure`, or what reading the bytes throws; Problem where no process can be started. */
  parse(
    organizationId: string,
    bytes: AsyncIterable<Uint8Array>,
    claims: DocumentClaims,
    chunking: Chunking | null,
    signal: AbortSignal,
  ): Promise<Parsed>;
  /** Cuts what was read before. */
  chunk(
    organizationId: string,
    document: ParsedDocument,
    chunking: Chunking,
    signal: AbortSignal,
  ): Promise<Chunk[]>;
  close(): Promise<void>;
}

export interface ParsersOptions {
  /** How many documents are read at a time. */
  readonly processes: number;
  readonly log: Log;
  readonly limits?: Partial<ParsingLimits>;
}

export interface ParsingLimits {
  /**
   * Of the processor's time, so that a busy server refuses nothing that an idle one reads. Where the system does not tell
   * it, of the clock's.
   */
  readonly timeMs: number;
  /** Of the clock's time, for a reader that waits for what never comes. */
  readonly clockMs: number;
  /** Of objects, and of all that the process holds. */
  readonly heapMegabytes: number;
  readonly residentMegabytes: number;
}

const defaultLimits: ParsingLimits = {
  timeMs: 120_000,
  // Beside others that want all of the processor, its priority gives it about a tenth.
  clockMs: 1_200_000,
  heapMegabytes: 768,
  residentMegabytes: 1536,
};

const program = join(import.meta.dirname, 'parsing-process.ts');
/**
 * What the system lets a process have of the processor in all its life: one that is in the middle of something when its
 * server dies without a word hears of nothing, and nobody else would end it. Each has enough for whatever it begins.
 */
const lifetimeMs = ({ timeMs }: ParsingLimits): number => 3 * timeMs;
/** A process that has nothing to do holds its memory for no longer. */
const idleMs = 30_000;
const lookMs = 200;
/**
 * What a process may use of the processor before it yields to others: so it is started, and what is short is read, in
 * time for somebody who waits for it, also where others want all of the processor.
 */
const promptMs = 2000;

export function createParsers({ processes, log, limits: given }: ParsersOptions): Parsers {
  const limits = { ...defaultLimits, ...given };
  const idle: ChildProcess[] = [];
  const all = new Set<ChildProcess>();
  /** By organization, the one whose turn is next first. */
  const waiting = new Map<string, (() => void)[]>();
  let busy = 0;
  let idleTimer: NodeJS.Timeout | undefined;

  const enter = async (organizationId: string, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    if (busy < processes) busy += 1;
    else await turn(organizationId, signal);
  };
  /** Who is not wanted any more does not wait for those before it. */
  const turn = (organizationId: string, signal: AbortSignal): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const own = waiting.get(organizationId) ?? [];
    const goAway = (): void => {
      own.splice(own.indexOf(begins), 1);
      if (own.length === 0) waiting.delete(organizationId);
      reject(signal.reason);
    };
    const begins = (): void => {
      signal.removeEventListener('abort', goAway);
      resolve();
    };
    own.push(begins);
    waiting.set(organizationId, own);
    signal.addEventListener('abort', goAway, { once: true });
    return promise;
  };
  const nextInTurn = (): (() => void) | undefined => {
    const [first] = waiting;
    if (!first) return undefined;
    const [organizationId, own] = first;
    const next = own.shift();
    waiting.delete(organizationId);
    if (own.length > 0) waiting.set(organizationId, own);
    return next;
  };
  const leave = (): void => {
    const next = nextInTurn();
    if (next) next();
    else busy -= 1;
    clearTimeout(idleTimer);
    idleTimer = setTimeout(() => {
      for (const child of idle.splice(0)) child.kill('SIGKILL');
    }, idleMs);
    idleTimer.unref();
  };
  const begin = async (): Promise<ChildProcess> => {
    const child = start(limits);
    if (child.pid === undefined) {
      // It never was, and never ends: its error is all that comes of it.
      const [cause] = await once(child, 'error');
      throw new Problem('overloaded', 'No process can be started to read it; try again in a moment.', {
        cause,
      });
    }
    all.add(child);
    child.once('exit', () => {
      all.delete(child);
      if (idle.includes(child)) idle.splice(idle.indexOf(child), 1);
    });
    return child;
  };
  const work = async (
    organizationId: string,
    requests: AsyncIterable<ParsingRequest>,
    signal: AbortSignal,
  ): Promise<Parsed> => {
    await enter(organizationId, signal);
    try {
      return opened(await answerOf(idle.pop() ?? (await begin()), requests, signal), log);
    } finally {
      leave();
    }
  };
  const answerOf = async (
    child: ChildProcess,
    requests: AsyncIterable<ParsingRequest>,
    signal: AbortSignal,
  ): Promise<ParsingAnswer> => {
    try {
      const answer = await asked(child, requests, limits, signal);
      if (answer.cpuMs + limits.timeMs < lifetimeMs(limits)) idle.push(child);
      else child.kill('SIGKILL');
      return answer;
    } catch (error) {
      // One that is cut off in the middle of something is in no state to go on.
      child.kill('SIGKILL');
      throw error;
    }
  };
  return {
    parse: (organizationId, bytes, { name, charset }, chunking, signal) =>
      work(organizationId, requestsOf(bytes, { kind: 'parse', claims: { name, charset }, chunking }), signal),
    chunk: async (organizationId, document, chunking, signal) =>
      (await work(organizationId, requestsOf([], { kind: 'chunk', document, chunking }), signal)).chunks,
    async close() {
      clearTimeout(idleTimer);
      const gone = [...all].map((child) => once(child, 'exit'));
      for (const child of all) child.kill('SIGKILL');
      await Promise.all(gone);
    },
  };
}

/** It inherits no secret, writes no file, and starts no program and no thread; the server goes before it. */
function start(limits: ParsingLimits): ChildProcess {
  const words = [
    ...[process.execPath, `--max-old-space-size=${limits.heapMegabytes}`],
    ...['--permission', '--allow-fs-read=*', '--no-warnings', program],
  ];
  const bounded = `ulimit -c 0; ulimit -t ${Math.ceil(lifetimeMs(limits) / 1000)}; exec "$@"`;
  const child = spawn('/bin/sh', ['-c', bounded, 'sh', ...words], {
    env: {},
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  // It keeps no server alive that stops.
  child.unref();
  child.channel?.unref();
  child.on('error', () => undefined);
  // Where the system does not tell what it uses, it yields from the first on.
  if (child.pid !== undefined && processStat(child.pid) === null) lowerPriority(child.pid);
  return child;
}

/** Of each of its threads: Linux counts them apart, and those that collect garbage have much to do. */
function lowerPriority(pid: number): void {
  try {
    const threads = process.platform === 'linux' ? readdirSync(`/proc/${pid}/task`).map(Number) : [pid];
    for (const thread of threads) setPriority(thread, 10);
  } catch {
    // Gone already, or not allowed here: it is only politeness.
  }
}

async function* requestsOf(
  bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  last: ParsingRequest,
): AsyncGenerator<ParsingRequest> {
  for await (const piece of bytes) yield { kind: 'bytes', bytes: piece };
  yield last;
}

async function asked(
  child: ChildProcess,
  requests: AsyncIterable<ParsingRequest>,
  limits: ParsingLimits,
  signal: AbortSignal,
): Promise<ParsingAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<ParsingAnswer>();
  // Also heard where sending fails first.
  promise.catch(() => undefined);
  const answered = (answer: ParsingAnswer): void => resolve(answer);
  const exited = (_code: number | null, by: NodeJS.Signals | null): void =>
    reject(by !== null && endings.has(by) ? ended() : tooMuch('It takes too much memory to be read.'));
  const tooLong = (ms: number): void => reject(tooMuch(`It takes longer than ${ms / 1000} seconds.`));
  const aborted = (): void => reject(signal.reason);
  child.on('message', answered);
  child.on('exit', exited);
  signal.addEventListener('abort', aborted);
  const watch = watchUse(child, limits, () => child.kill('SIGKILL'), tooLong);
  let timer: NodeJS.Timeout | undefined;
  const source = requests[Symbol.asyncIterator]();
  try {
    signal.throwIfAborted();
    for (;;) {
      // Where its bytes come from may be silent for long: nobody waits for it who is not wanted, or has lost the process.
      const next = await Promise.race([source.next(), promise]);
      if ('kind' in next) return next;
      if (next.done) break;
      await Promise.race([send(child, next.value), promise]);
    }
    const clockMs = process.platform === 'linux' ? limits.clockMs : limits.timeMs;
    timer = setTimeout(tooLong, clockMs, clockMs);
    return await promise;
  } finally {
    // Of what is given up nothing is heard any more, however it ends.
    source.return?.().catch(() => undefined);
    clearTimeout(timer);
    clearInterval(watch);
    child.off('message', answered);
    child.off('exit', exited);
    signal.removeEventListener('abort', aborted);
  }
}

/** Resolves when the process has room for more. One that is gone says so by its exit. */
function send(child: ChildProcess, request: ParsingRequest): Promise<void> {
  return new Promise((resolve) => {
    child.send(request, () => resolve());
  });
}

/** What lies outside the heap is limited by nobody else. Where the system does not tell, the heap and the clock are all. */
function watchUse(
  child: ChildProcess,
  { residentMegabytes, timeMs }: ParsingLimits,
  tooMany: () => void,
  tooLong: (ms: number) => void,
): NodeJS.Timeout {
  // It may have read others.
  const before = processStat(child.pid ?? 0)?.cpuMs ?? 0;
  const look = (): void => {
    const use = processStat(child.pid ?? 0);
    if (!use) return;
    if (use.cpuMs > promptMs) lowerPriority(child.pid ?? 0);
    if (use.residentBytes > residentMegabytes * 1024 * 1024) tooMany();
    else if (use.cpuMs - before > timeMs) tooLong(timeMs);
  };
  const timer = setInterval(look, lookMs);
  timer.unref();
  return timer;
}

/** What ends the server reaches its whole group, and a reader that is being started is not deaf to it yet. */
const endings: ReadonlySet<NodeJS.Signals> = new Set(['SIGTERM', 'SIGINT', 'SIGHUP']);

/** The document is read again. */
function ended(): Problem {
  return new Problem('overloaded', 'What read it was ended from outside; try again in a moment.');
}

function tooMuch(what: string): ParseFailure {
  return new ParseFailure('too_slow', `${what} Save it simpler, or in parts.`);
}

function opened(answer: ParsingOutcome, log: Log): Parsed {
  if (answer.kind === 'done') return answer;
  if (answer.kind === 'refused') throw new ParseFailure(answer.code, answer.message);
  log.warn({ fault: answer.message }, 'a document could not be read');
  throw new ParseFailure('malformed', 'The file is damaged and cannot be read; save it again.');
}
