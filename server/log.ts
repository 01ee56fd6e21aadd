/** The structured log: one JSON line an event, secrets cut out. */
import { mkdirSync, openSync, renameSync, statSync, write, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { format } from 'node:util';
import { type DestinationStream, type Logger, pino } from 'pino';

export type Log = Logger;

/** What may never reach a log, wherever it stands in an entry. */
const secrets = [
  'authorization',
  'cookie',
  'password',
  'token',
  'access_token',
  'refresh_token',
  'api_key',
  'key',
];

type Level = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/**
 * Writes to standard error, so that standard output stays free for what a command answers. `context` is asked at each
 * line for what it tells besides: the trace that it belongs to.
 */
export function createLog(level: Level = 'info', context?: () => object): Log {
  standardError ??= gathered(2);
  return logTo(standardError, level, context);
}

/** One for all logs of the process: it is told once when the process ends. */
let standardError: DestinationStream | undefined;

/** How long a line waits for others: to write is a turn of a thread each time. */
const gatherMs = 10;
const mostGathered = 8192;

/** How long a full pipe is left to its reader. */
const fullPipeMs = 100;

/** What was gathered is also written when the process ends by itself, and after an error that nobody has caught. */
function gathered(file: number): DestinationStream {
  const lines = new Lines();
  let batch: Batch | null = null;
  let inThread = false;
  let gathering = false;
  const flush = (): void => {
    gathering = false;
    if (batch || lines.length === 0) return;
    batch = lines.take();
    writeOn(batch);
  };
  const flushLater = (): void => {
    if (!gathering) setTimeout(flush, gatherMs).unref();
    gathering = true;
  };
  const writeOn = (begun: Batch): void => {
    inThread = true;
    write(file, begun.bytes, begun.at, (error, written) => {
      inThread = false;
      begun.at += error ? 0 : written;
      if (error?.code === 'EAGAIN') setTimeout(() => writeOn(begun), fullPipeMs).unref();
      else if (!error && begun.at < begun.bytes.length) writeOn(begun);
      else {
        lines.settle(begun);
        batch = null;
        if (lines.length > 0) flushLater();
      }
    });
  };
  process.once('exit', () => {
    if (batch && !inThread) writeOnce(file, batch);
    if (lines.length > 0) writeOnce(file, lines.take());
  });
  return {
    write(line) {
      lines.add(line);
      if (lines.length >= mostGathered) flush();
      else flushLater();
    },
  };
}

/** A log file larger than this is put aside at the next start; one of the kind is kept. */
const largestFileBytes = 10 * 1024 * 1024;

/** Appends to a file that only its owner reads; several processes may write to it at once. */
export function createFileLog(path: string, level: Level = 'info'): Log {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > largestFileBytes)
    renameSync(path, `${path}.1`);
  const file = openSync(path, 'a', 0o600);
  const lines = new Lines();
  // Written at once: what led to the end of a process is what its reader looks for.
  const write = (line: string): void => {
    lines.add(line);
    const batch = lines.take();
    writeOnce(file, batch);
    lines.settle(batch);
  };
  return logTo({ write }, level);
}

/** Until the first error: a disk that is full must keep nobody from going on, or from ending. */
function writeOnce(file: number, batch: Batch): void {
  try {
    while (batch.at < batch.bytes.length) batch.at += writeSync(file, batch.bytes, batch.at);
  } catch {
    // Whoever goes on finds what was written, and counts the rest.
  }
}

/** Of what a library says in one go. */
const mostSaid = 500;

/**
 * Has the log told what libraries write to the console and what Node warns of. By themselves both stand between its lines,
 * or in the terminal of whoever runs a command. What a library quotes is what others have told it, secrets among it, and is
 * left out.
 */
export function takeOverConsole(log: Log): void {
  for (const method of ['debug', 'error', 'info', 'log', 'warn'] as const)
    console[method] = (...said) => {
      const text = format(...said).replaceAll(/"(?:[^"\\]|\\.)*"/gs, '"…"');
      log.warn({ said: text.slice(0, mostSaid) }, 'a library wrote to the console');
    };
  process.removeAllListeners('warning');
  process.on('warning', (warning: NodeJS.ErrnoException) => {
    if (warning.code !== ofPackages) log.warn({ err: warning }, 'Node warns');
  });
}

/** `url.parse()`: Node spares packages the warning while they lie below `node_modules`, and compiled they do not. */
const ofPackages = 'DEP0169';

/** What waits for a file that is slower than the log; what comes on top is lost. */
const mostWaiting = 4 * 1024 * 1024;

interface Line {
  readonly text: string;
  /** How many lines are lost with it. */
  readonly counts: number;
}

interface Batch {
  readonly lines: readonly Line[];
  readonly bytes: Buffer;
  /** How far it is written. */
  at: number;
}

/** Lines on their way into a file. What it does not take is let go, counted, and told of once it takes any again. */
class Lines {
  /** Of the text that waits. */
  length = 0;
  #waiting: Line[] = [];
  #lost = 0;
  /** Whether the file ends with half a line. */
  #cut = false;

  add(text: string): void {
    if (this.length + text.length > mostWaiting) this.#lost += 1;
    else {
      this.#waiting.push({ text, counts: 1 });
      this.length += text.length;
    }
  }

  take(): Batch {
    const lines = [
      ...(this.#cut ? [{ text: '\n', counts: 0 }] : []),
      ...(this.#lost > 0 ? [{ text: told(this.#lost), counts: this.#lost }] : []),
      ...this.#waiting,
    ];
    this.#lost = 0;
    this.#waiting = [];
    this.length = 0;
    return { lines, bytes: Buffer.from(lines.map(({ text }) => text).join('')), at: 0 };
  }

  settle({ lines, bytes, at }: Batch): void {
    if (at > 0) this.#cut = bytes[at - 1] !== newline;
    if (at === bytes.length) return;
    let end = 0;
    for (const { text, counts } of lines) {
      end += Buffer.byteLength(text);
      if (end > at) this.#lost += counts;
    }
  }
}

const newline = 10;

function told(lost: number): string {
  const entry = { level: pino.levels.values.warn, time: new Date().toISOString(), lost };
  return `${JSON.stringify({ ...entry, msg: 'so many lines of the log were lost: it could not be written' })}\n`;
}

/** The same log, for lines whose members are known to hold no secret: to look for one costs more than the line itself. */
export function withoutSearch(log: Log): Log {
  return log.child({}, { redact: [] });
}

function logTo(destination: DestinationStream, level: Level, context?: () => object): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      ...(context && { mixin: context }),
      redact: {
        paths: secrets.flatMap((name) => [name, `*["${name}"]`, `*["x-${name}"]`, '*["x-api-key"]']),
        censor: '[redacted]',
      },
    },
    destination,
  );
}
