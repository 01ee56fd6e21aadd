/** How long a call may take: long, but not without a sign of life. */

/** The time of one call. */
export interface CallClock {
  /** Aborts when the time is over, or when the run is interrupted. */
  readonly signal: AbortSignal;
  /** Whether it aborted because the time was over. */
  readonly expired: () => boolean;
  /** The server has given a sign of life. */
  reset(): void;
  /** Stands still while a person is asked. */
  pause<Result>(action: () => Promise<Result>): Promise<Result>;
  stop(): void;
}

/** Starts the clock of one call. */
export function startCallClock(run: AbortSignal, silenceMs: number, totalMs: number): CallClock {
  const late = new AbortController();
  const expire = () => late.abort(new Error('The call took too long.'));
  const total = setTimeout(expire, totalMs);
  let silence = setTimeout(expire, silenceMs);
  let paused = 0;
  let stopped = false;
  const reset = () => {
    clearTimeout(silence);
    // A person may be asked for longer than the call lasts.
    if (paused === 0 && !stopped) silence = setTimeout(expire, silenceMs);
  };
  return {
    signal: AbortSignal.any([run, late.signal]),
    expired: () => late.signal.aborted,
    reset,
    async pause(action) {
      paused += 1;
      reset();
      try {
        return await action();
      } finally {
        paused -= 1;
        reset();
      }
    },
    stop() {
      stopped = true;
      clearTimeout(total);
      clearTimeout(silence);
    },
  };
}
