/** What tells a command to stop before its end: the first such thing stops the work, a second signal the command. */

/** What was asked of this process. */
export interface Interrupts {
  /** The exit code that says what came; null as long as nothing has. */
  exitCode(): number | null;
  /** Signals act as they always do again. */
  release(): void;
}

/** As shells have it: 128 and the number of the signal. */
const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** What came: a signal, or nobody reads standard output any more. */
export type Interrupt = 'signal' | 'reader_left';

/** @param stop - Called once, with the first that came. */
export function catchInterrupts(stop: (what: Interrupt) => void): Interrupts {
  let exitCode: number | null = null;
  const stopOnce = (what: Interrupt, code: number) => {
    if (exitCode === null) setImmediate(stop, what);
    exitCode ??= code;
  };
  const listeners = Object.entries(codes).map(([name, code]) => {
    const onSignal = () => {
      if (exitCode !== null) process.exit(code);
      stopOnce('signal', code);
    };
    process.on(name, onSignal);
    return [name, onSignal] as const;
  });
  onReaderLeft(() => stopOnce('reader_left', 0));
  return {
    exitCode: () => exitCode,
    release() {
      for (const [name, onSignal] of listeners) process.off(name, onSignal);
    },
  };
}

/**
 * Other commands end at once there; this one has work to stop. Whoever reads us, as `head` does, may have read enough,
 * and a terminal may have been closed.
 */
function onReaderLeft(act: () => void): void {
  for (const stream of [process.stdout, process.stderr])
    stream.removeAllListeners('error').on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
      if (stream === process.stdout) act();
    });
}
