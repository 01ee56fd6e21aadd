/** One line of the log, for people. */
import { localTime } from '../local-time.ts';
import { paint, printable, type Style } from '../output.ts';

/** The levels of pino, which writes the log. */
const levels: Readonly<Record<number, { readonly name: string; readonly style: Style }>> = {
  10: { name: 'TRACE', style: 'dim' },
  20: { name: 'DEBUG', style: 'dim' },
  30: { name: 'INFO', style: 'green' },
  40: { name: 'WARN', style: 'yellow' },
  50: { name: 'ERROR', style: 'red' },
  60: { name: 'FATAL', style: 'red' },
};

/** Time, level, message and fields; a failure's stack below. What is no line of ours is shown as it is. */
export function formatLogLine(line: string): string {
  const entry = parse(line);
  if (!entry) return printable(line);
  const { time, level, msg, err, ...fields } = entry;
  const { name, style } = levels[Number(level)] ?? { name: printable(String(level)), style: 'dim' };
  const head = [
    paint('dim', timeOf(time)),
    paint(style, name.padEnd(5)),
    ...(typeof msg === 'string' ? [printable(msg)] : []),
    ...Object.entries(fields).map(([key, value]) => `${paint('dim', `${printable(key)}=`)}${wordOf(value)}`),
  ].join(' ');
  return err === undefined ? head : `${head}\n${failureOf(err)}`;
}

function parse(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    // An object that is no array has members by name.
    return typeof value === 'object' && value && 'level' in value ? (value as Record<string, unknown>) : null;
  } catch {
    return null; // Cut off, or written by something else: it is shown all the same.
  }
}

function timeOf(time: unknown): string {
  const given = typeof time === 'string' || typeof time === 'number' ? time : String(time);
  return printable(localTime(given, { exact: true }));
}

function wordOf(value: unknown): string {
  return printable(
    typeof value === 'string' && !/[\s"=]/.test(value) && value ? value : JSON.stringify(value),
  );
}

function failureOf(err: unknown): string {
  const stack = typeof err === 'object' && err && 'stack' in err ? String(err.stack) : JSON.stringify(err);
  return paint('dim', printable(stack, { lines: true }).replaceAll(/^/gm, '    '));
}
