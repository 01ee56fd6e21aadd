/** A decision is about the version that the person has read. */
import type { Plan } from '@service/client/api';
import { CommandFailure, exitCodes } from './failures.ts';

/** Throws where the plan has another version than the one named, if any. */
export function requireVersion({ version }: Plan, named: string | undefined): void {
  if (named === undefined) return;
  if (!/^[1-9]\d{0,6}$/.test(named))
    throw new CommandFailure(
      `--plan-version takes a number, as 2, and not ${JSON.stringify(named)}.`,
      exitCodes.usage,
    );
  if (version !== Number(named))
    throw new CommandFailure(
      `The plan has version ${version} by now, and not ${named}: read it with service plans show.`,
    );
}
