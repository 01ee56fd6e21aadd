/** The structured log: one JSON line an event, secrets cut out. */
import { mkdirSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
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
  return logTo(gathered(pino.destination({ dest: 2, sync: false, minLength: mostGathered })), level, context);
}

/** How long a line waits for others: to write is a turn of a thread each time. */
const gatherMs = 10;
const mostGathered = 8192;

/** What was gathered is also written when the process ends by itself, and after an error that nobody has caught. */
function gathered(stream: ReturnType<typeof pino.destination>): DestinationStream {
  let gathering = false;
  let waiting = false;
  const flush = (): void => {
    gathering = false;
    stream.flush();
  };
  const flushLater = (): void => {
    if (!gathering) setTimeout(flush, gatherMs).unref();
    gathering = true;
  };
  // What came while it was writing has not been flushed.
  stream.on('drain', () => {
    if (waiting) flushLater();
    waiting = false;
  });
  return {
    write(line) {
      waiting = true;
      stream.write(line);
      flushLater();
    },
  };
}

/** A log file larger than this is put aside at the next start; one of the kind is kept. */
const largestFileBytes = 10 * 1024 * 1024;

/** Appends to a file that only its owner reads; several processes may write to it at once. */
export function createFileLog(file: string, level: Level = 'info'): Log {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > largestFileBytes)
    renameSync(file, `${file}.1`);
  // Written at once: what led to the end of a process is what its reader looks for.
  return logTo(pino.destination({ dest: file, append: true, mode: 0o600, sync: true }), level);
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
