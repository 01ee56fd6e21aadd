/** Ends the commands that runs have left at work in the background once their people may not act any more, or they are gone. */
import type { Log } from '../../log.ts';
import type { Jobs } from '../tools/jobs.ts';
import type { Transcript } from '../transcript.ts';

export interface LeftCommandsOptions {
  readonly jobs: Pick<Jobs, 'runs' | 'endThoseOf'>;
  readonly transcript: Pick<Transcript, 'readInForce'>;
  /** How often it looks: another process may be the one that took somebody's rights, or their session. */
  readonly everyMs: number;
  readonly log: Log;
}

export interface LeftCommands {
  /** Looks now; returns at once. */
  review(): void;
  stop(): Promise<void>;
}

export function watchLeftCommands({ jobs, transcript, everyMs, log }: LeftCommandsOptions): LeftCommands {
  let looking: Promise<void> | null = null;
  let again = false;
  const look = async () => {
    const runs = jobs.runs();
    if (runs.length === 0) return;
    const inForce = new Set(await transcript.readInForce(runs));
    const others = runs.filter((runId) => !inForce.has(runId));
    if (others.length > 0) await jobs.endThoseOf(new Set(others));
  };
  const review = () => {
    // What changed after it had read is not to be missed.
    again = true;
    looking ??= lookWhileAsked().finally(() => {
      looking = null;
    });
  };
  const lookWhileAsked = async () => {
    while (again) {
      again = false;
      await look().catch((error: unknown) =>
        log.error(
          { err: error },
          'whose commands are at work could not be looked up; the next look tries again',
        ),
      );
    }
  };
  const timer = setInterval(review, everyMs);
  timer.unref();
  return {
    review,
    async stop() {
      clearInterval(timer);
      await looking;
    },
  };
}
