/** How long a call may take: long, but not without a sign of life. */

/** The time of one call. */
export interface CallClock {
  /** Aborts when its time is over, or when the run is interrupted. */
  readonly signal: AbortSignal;
  /** Which of its times is over: that of silence, or that of the whole call; null while neither is. */
  readonly expired: () => 'silence' | 'whole' | null;
  /** The server has given a sign of life. */
  reset(): void;
  /** Stands still while a person is asked: they may take longer than a call may. */
  pause<Result>(action: () => Promise<Result>): Promise<Result>;
  stop(): void;
}

/** Starts the clock of one call. */
export function startCallClock(run: AbortSignal, silenceMs: number, wholeMs: number): CallClock {
  const late = new AbortController();
  let over: 'silence' | 'whole' | null = null;
  let leftMs = wholeMs;
  let since = performance.now();
  let silence: NodeJS.Timeout;
  let whole: NodeJS.Timeout;
  let paused = 0;
  let stopped = false;
  const expire = (which: 'silence' | 'whole') => {
    over ??= which;
    late.abort(new Error('The call took too long.'));
  };
  const start = () => {
    since = performance.now();
    silence = setTimeout(expire, silenceMs, 'silence');
    whole = setTimeout(expire, leftMs, 'whole');
  };
  const halt = () => {
    leftMs -= performance.now() - since;
    clearTimeout(silence);
    clearTimeout(whole);
  };
  start();
  return {
    signal: AbortSignal.any([run, late.signal]),
    expired: () => over,
    reset() {
      if (paused === 0 && !stopped) silence.refresh();
    },
    async pause(action) {
      if (paused === 0) halt();
      paused += 1;
      try {
        return await action();
      } finally {
        paused -= 1;
        if (paused === 0 && !stopped) start();
      }
    },
    stop() {
      stopped = true;
      clearTimeout(silence);
      clearTimeout(whole);
    },
  };
}
