// Commands that a session has started and that may go on after the call that started them.
import { randomInt } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { CommandEnd } from '../commands/command.ts';
import { UnreadOutput } from './bounded-output.ts';

/** How many commands there may be, and how long they are remembered. */
export interface JobLimits {
  /** The most that one session, and all of a process, may have at work at the same time. */
  readonly ofSession: number;
  readonly ofProcess: number;
  /** How many ended jobs of a session can still be asked for their last output, and for how long. */
  readonly remembered: number;
  readonly rememberedMs: number;
}

const usualLimits: JobLimits = {
  ofSession: 10,
  ofProcess: 200,
  remembered: 20,
  rememberedMs: 60 * 60 * 1000,
};
const MAX_UNREAD_LENGTH = 30_000;

/** One command at work, or at its end. */
export interface Job {
  readonly id: string;
  readonly command: string;
  /** After how many seconds it is stopped, where whoever started it has said that. */
  readonly timeoutSeconds: number | undefined;
  /** How it ended; null while it is at work. */
  end(): CommandEnd | null;
  /** For how long it has been at work, or was. */
  ageMs(): number;
  /** Resolves when it has ended; rejects only where it could not be started. */
  readonly ended: Promise<CommandEnd>;
  /** The output since the last time it was taken. */
  takeUnread(): string;
  /** Resolves when there is output to take, when the job has ended, or when the time is over. */
  news(withinMs: number, signal: AbortSignal): Promise<void>;
  /** Says that nobody waits for its end any more. */
  leave(): void;
  /** Ends it and all it started. */
  kill(): Promise<void>;
}

/** A command that is to be started. */
export interface NewJob {
  readonly sessionId: string;
  /** The run that asks for it. */
  readonly runId: string;
  /** The workspace folder. */
  readonly place: string;
  readonly command: string;
  readonly timeoutSeconds: number | undefined;
  readonly launch: Launch;
  /** That of the run that asks for it, with which it ends. */
  readonly signal: AbortSignal;
}

/** Starts a command: `signal` ends it, and each piece of its output goes to `onOutput`. */
export type Launch = (signal: AbortSignal, onOutput: (text: string) => void) => Promise<CommandEnd>;

/** The jobs of a runtime. */
export interface Jobs {
  /**
   * Starts a job. Where the process has too many, the oldest that nobody waits for gives way, in the workspace that has most.
   * @returns null where there are too many already.
   */
  start(job: NewJob): Job | null;
  /** A job of this session. */
  find(sessionId: string, jobId: string): Job | null;
  /** Those of this session, the oldest first. */
  list(sessionId: string): readonly Job[];
  /** Forgets a job that nobody will ask for. */
  forget(sessionId: string, jobId: string): void;
  /** Ends those of a session, which is gone. */
  endSession(sessionId: string): Promise<void>;
  /** The runs that have started those at work. */
  runs(): readonly string[];
  /** Ends those that these runs have started. */
  endThoseOf(runIds: ReadonlySet<string>): Promise<void>;
  /** How many are at work. */
  running(): number;
  close(): Promise<void>;
}

/** One that has been started, with what only the jobs themselves need to know of it. */
interface StartedJob extends Job {
  readonly place: string;
  readonly runId: string;
  /** Whether somebody waits for its end. */
  isAwaited(): boolean;
  /** When it ended, by the clock of the process; null while it is at work. */
  endedAt(): number | null;
}

export function createJobs(limits: JobLimits = usualLimits): Jobs {
  const sessions = new Map<string, Map<string, StartedJob>>();
  const life = randomWord();
  let started = 0;
  const all = () => [...sessions.values()].flatMap((jobs) => [...jobs.values()]);
  const isRunning = (job: Job) => job.end() === null;
  const list = (sessionId: string) => [...(sessions.get(sessionId)?.values() ?? [])];
  const forget = (sessionId: string, jobId: string) => {
    const jobs = sessions.get(sessionId);
    jobs?.delete(jobId);
    if (jobs?.size === 0) sessions.delete(sessionId);
  };
  /** Nobody asks any more for what has ended long ago, or before many others. */
  const forgetOld = () => {
    const since = performance.now() - limits.rememberedMs;
    for (const sessionId of [...sessions.keys()]) {
      const ended = list(sessionId).filter((job) => !isRunning(job));
      const kept = ended.slice(-limits.remembered).filter((job) => (job.endedAt() ?? 0) > since);
      for (const job of ended) if (!kept.includes(job)) forget(sessionId, job.id);
    }
  };
  return {
    start(wanted) {
      const { sessionId } = wanted;
      forgetOld();
      if (list(sessionId).filter(isRunning).length >= limits.ofSession) return null;
      const running = all().filter(isRunning);
      if (running.length >= limits.ofProcess) {
        const dispensable = mostDispensable(running);
        if (!dispensable) return null;
        void dispensable.kill();
      }
      started += 1;
      const job = startJob(`job_${life}_${started}`, wanted);
      sessions.set(sessionId, (sessions.get(sessionId) ?? new Map()).set(job.id, job));
      return job;
    },
    find: (sessionId, jobId) => sessions.get(sessionId)?.get(jobId) ?? null,
    list,
    forget,
    async endSession(sessionId) {
      const jobs = list(sessionId);
      sessions.delete(sessionId);
      await Promise.all(jobs.map((job) => job.kill()));
    },
    runs: () => [
      ...new Set(
        all()
          .filter(isRunning)
          .map(({ runId }) => runId),
      ),
    ],
    async endThoseOf(runIds) {
      const theirs = all().filter((job) => isRunning(job) && runIds.has(job.runId));
      await Promise.all(theirs.map((job) => job.kill()));
    },
    running: () => all().filter(isRunning).length,
    async close() {
      await Promise.all(all().map((job) => job.kill()));
      sessions.clear();
    },
  };
}

/**
 * What tells the jobs of this process from those of the one before it: a conversation outlives both, and would otherwise end
 * or read another command than it means. Without characters that are taken for each other.
 */
function randomWord(): string {
  const letters = 'abcdefghjkmnpqrstuvwxyz23456789';
  return Array.from({ length: 4 }, () => letters[randomInt(letters.length)]).join('');
}

/** Whoever leaves many commands behind is the one whose oldest goes; null where all are waited for. */
function mostDispensable(running: readonly StartedJob[]): StartedJob | null {
  const left = Map.groupBy(
    running.filter((job) => !job.isAwaited()),
    ({ place }) => place,
  );
  const [most] = [...left.values()].sort((one, other) => other.length - one.length);
  return most?.[0] ?? null;
}

function startJob(id: string, wanted: NewJob): StartedJob {
  const { place, runId, command, timeoutSeconds, launch, signal } = wanted;
  const stop = new AbortController();
  const unread = new UnreadOutput(MAX_UNREAD_LENGTH);
  const startedAt = performance.now();
  let endedAt: number | null = null;
  let awaited = true;
  let end: CommandEnd | null = null;
  let woken = Promise.withResolvers<void>();
  const wake = () => {
    woken.resolve();
    woken = Promise.withResolvers();
  };
  const onOutput = (text: string) => {
    unread.push(text);
    wake();
  };
  const ended = launch(AbortSignal.any([stop.signal, signal]), onOutput).then(
    (how) => {
      end = how;
      endedAt = performance.now();
      wake();
      return how;
    },
    (error: unknown) => {
      end = { reason: 'exited', exitCode: null, signalName: null };
      endedAt = performance.now();
      wake();
      throw error;
    },
  );
  // Whoever started it hears of it; whoever asks later hears that it has ended.
  ended.catch(() => undefined);
  return {
    id,
    place,
    runId,
    command,
    timeoutSeconds,
    end: () => end,
    ageMs: () => (endedAt ?? performance.now()) - startedAt,
    endedAt: () => endedAt,
    isAwaited: () => awaited,
    leave() {
      awaited = false;
    },
    ended,
    takeUnread: () => unread.take(),
    async news(withinMs, waiting) {
      if (end !== null || unread.length > 0) return;
      const timer = new AbortController();
      const over = delay(withinMs, undefined, {
        signal: AbortSignal.any([timer.signal, waiting]),
        ref: false,
      });
      await Promise.race([woken.promise, over.catch(() => undefined)]);
      timer.abort();
    },
    async kill() {
      stop.abort();
      await ended.catch(() => undefined);
    },
  };
}
