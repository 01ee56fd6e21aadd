/** `service logs`: what the servers inside commands wrote of their work in this project. */
import { stat } from 'node:fs/promises';
import { CommandFailure, exitCodes } from '../failures.ts';
import { catchInterrupts } from '../interrupts.ts';
import { logFileIn, readLog } from '../log/log-file.ts';
import { formatLogLine } from '../log/log-line.ts';
import { displayPath, isTerminal, notice, print, printable } from '../output.ts';
import { currentSettings } from '../places.ts';

/** What may be wished of the log. */
export interface LogWishes {
  readonly follow?: boolean;
  readonly tail: string;
  readonly json?: boolean;
}

/** Prints the last lines, and with `follow` what comes. */
export async function printLogs({ follow = false, tail, json = false }: LogWishes): Promise<void> {
  if (!/^\d{1,9}$/.test(tail))
    throw new CommandFailure(
      `--tail takes a number of lines, as 100, and not ${JSON.stringify(tail)}.`,
      exitCodes.usage,
    );
  const file = await logFile();
  const stopped = new AbortController();
  const interrupts = follow ? catchInterrupts(() => stopped.abort()) : null;
  if (!(await isThere(file)))
    notice(`There is no log yet: ${displayPath(file, process.stderr)} is written by service run.`);
  for await (const line of readLog(file, { tail: Number(tail), follow: follow ? stopped.signal : null }))
    print(json ? exactLine(line) : formatLogLine(line));
  process.exitCode = interrupts?.exitCode() ?? exitCodes.done;
}

/** Exact in a pipe, harmless on a terminal: JSON may hold direction marks as they are, and not every line is JSON. */
function exactLine(line: string): string {
  return isTerminal() ? printable(line) : line;
}

async function logFile(): Promise<string> {
  const { localDataFolder } = await import('../../../server/config/config.ts');
  return logFileIn(await localDataFolder(await currentSettings()));
}

async function isThere(file: string): Promise<boolean> {
  return await stat(file).then(
    () => true,
    () => false, // Whatever stands in the way, opening it says so.
  );
}
