// Commands that a session has started and that may go on after the call that started them.
import { setTimeout as delay } from 'node:timers/promises';
import type { CommandEnd } from '../commands/command.ts';
import { UnreadOutput } from './bounded-output.ts';

/** The most that one session, and all of a process, may have at work at the same time. */
const MAX_JOBS_OF_SESSION = 10;
const MAX_JOBS = 200;
/** How many ended jobs of a session can still be asked for their last output. */
const REMEMBERED_JOBS = 20;
const MAX_UNREAD_LENGTH = 30_000;

/** One command at work, or at its end. */
export interface Job {
  readonly id: string;
  readonly command: string;
  /** How it ended; null while it is at work. */
  end(): CommandEnd | null;
  /** Resolves when it has ended; rejects only where it could not be started. */
  readonly ended: Promise<CommandEnd>;
  /** The output since the last time it was taken. */
  takeUnread(): string;
  /** Resolves when there is output to take, when the job has ended, or when the time is over. */
  news(withinMs: number, signal: AbortSignal): Promise<void>;
  /** Ends it and all it started. */
  kill(): Promise<void>;
}

/** Starts a command: `signal` ends it, and each piece of its output goes to `onOutput`. */
export type Launch = (signal: AbortSignal, onOutput: (chunk: Buffer) => void) => Promise<CommandEnd>;

/** The jobs of a runtime. */
export interface Jobs {
  /**
   * Starts a job; it ends with the signal, which is that of the run that asked for it.
   * @returns null where there are too many already.
   */
  start(sessionId: string, command: string, launch: Launch, signal: AbortSignal): Job | null;
  /** A job of this session. */
  find(sessionId: string, jobId: string): Job | null;
  /** Those of this session, the oldest first. */
  list(sessionId: string): readonly Job[];
  /** Forgets a job that nobody will ask for. */
  forget(sessionId: string, jobId: string): void;
  /** Ends those of a session, which is gone. */
  endSession(sessionId: string): Promise<void>;
  /** How many are at work. */
  running(): number;
  close(): Promise<void>;
}

export function createJobs(): Jobs {
  const sessions = new Map<string, Map<string, Job>>();
  let started = 0;
  const all = () => [...sessions.values()].flatMap((jobs) => [...jobs.values()]);
  const isRunning = (job: Job) => job.end() === null;
  const list = (sessionId: string) => [...(sessions.get(sessionId)?.values() ?? [])];
  const forget = (sessionId: string, jobId: string) => {
    const jobs = sessions.get(sessionId);
    jobs?.delete(jobId);
    if (jobs?.size === 0) sessions.delete(sessionId);
  };
  return {
    start(sessionId, command, launch, signal) {
      const running = list(sessionId).filter(isRunning).length;
      if (running >= MAX_JOBS_OF_SESSION || all().filter(isRunning).length >= MAX_JOBS) return null;
      started += 1;
      const job = startJob(`job_${started}`, command, launch, signal);
      const jobs = sessions.get(sessionId) ?? new Map<string, Job>();
      sessions.set(sessionId, jobs.set(job.id, job));
      const ended = list(sessionId).filter((one) => !isRunning(one));
      for (const old of ended.slice(0, -REMEMBERED_JOBS)) forget(sessionId, old.id);
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
    running: () => all().filter(isRunning).length,
    async close() {
      await Promise.all(all().map((job) => job.kill()));
      sessions.clear();
    },
  };
}

function startJob(id: string, command: string, launch: Launch, signal: AbortSignal): Job {
  const stop = new AbortController();
  const unread = new UnreadOutput(MAX_UNREAD_LENGTH);
  let end: CommandEnd | null = null;
  let woken = Promise.withResolvers<void>();
  const wake = () => {
    woken.resolve();
    woken = Promise.withResolvers();
  };
  const onOutput = (chunk: Buffer) => {
    unread.push(chunk);
    wake();
  };
  const ended = launch(AbortSignal.any([stop.signal, signal]), onOutput).then(
    (how) => {
      end = how;
      wake();
      return how;
    },
    (error: unknown) => {
      end = { reason: 'exited', exitCode: null, signalName: null };
      wake();
      throw error;
    },
  );
  // Whoever started it hears of it; whoever asks later hears that it has ended.
  ended.catch(() => undefined);
  return {
    id,
    command,
    end: () => end,
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
