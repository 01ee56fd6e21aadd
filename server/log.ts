/** The structured log: one JSON line an event, secrets cut out. */
import { type Logger, pino } from 'pino';

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

/** Writes to standard error, so that standard output stays free for what a command answers. */
export function createLog(level: 'debug' | 'info' | 'warn' | 'error' | 'silent' = 'info'): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: {
        paths: secrets.flatMap((name) => [name, `*["${name}"]`, `*["x-${name}"]`, '*["x-api-key"]']),
        censor: '[redacted]',
      },
    },
    pino.destination({ dest: 2, sync: false }),
  );
}
