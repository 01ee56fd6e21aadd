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
type Signal = keyof typeof codes;

/** What came: a signal, or nobody gets to read what is written to standard output any more. */
export type Interrupt = 'signal' | 'reader_left';

type Act = (what: Interrupt, code: number) => void;

/** Those who catch interrupts, the innermost last: it alone is told, and what is around it ends when it has. */
const catching: Act[] = [];

/** @param stop - Called once, with the first that came. */
export function catchInterrupts(stop: (what: Interrupt) => void): Interrupts {
  let exitCode: number | null = null;
  const act: Act = (what, code) => {
    if (exitCode === null) setImmediate(stop, what);
    else if (what === 'signal') end(code);
    exitCode ??= code;
  };
  catching.push(act);
  const ignoreSignals = heedSignals();
  return {
    exitCode: () => exitCode,
    release() {
      catching.splice(catching.indexOf(act), 1);
      ignoreSignals();
    },
  };
}

interface Holding {
  /** Says to whoever presses Ctrl+C meanwhile that it is heard. */
  readonly onHeld: () => void;
  /** Aborted where something came. */
  readonly came: AbortController;
}

/** Those who hold interrupts. */
const holding: Holding[] = [];
/** What came meanwhile, in its order. */
const held: (() => void)[] = [];

/**
 * Does what leaves something broken behind where it is cut off; what comes meanwhile takes effect when it is done. It has
 * to end by itself, and soon: what can be left out then may be, once the signal is aborted.
 */
export async function holdInterrupts<Result>(
  work: (came: AbortSignal) => Promise<Result>,
  onHeld: () => void,
): Promise<Result> {
  const one = { onHeld, came: new AbortController() };
  holding.push(one);
  const ignoreSignals = heedSignals();
  try {
    return await work(one.came.signal);
  } finally {
    holding.splice(holding.indexOf(one), 1);
    ignoreSignals();
    if (holding.length === 0) for (const act of held.splice(0)) act();
  }
}

/** Does the work; where an interrupt comes first, closes what the work has in use and ends the command. */
export async function closeAtEnd<Result>(
  work: () => Promise<Result>,
  close: () => Promise<void>,
): Promise<Result> {
  const { promise: stopped, reject } = Promise.withResolvers<never>();
  // Whoever catches them around this has more to do than to close, and stops the work himself.
  const interrupts = catching.length === 0 ? catchInterrupts(reject) : null;
  try {
    return await Promise.race([work(), stopped]);
  } finally {
    await close();
    const code = interrupts?.exitCode() ?? null;
    // Whatever the work still waits for, a person's answer for instance, would keep the command alive. A signal that
    // comes in the last moment is still heard: it would end the process with no exit code.
    if (code !== null) end(code);
    interrupts?.release();
  }
}

/** How many threads wait for what may never come. */
let waitingThreads = 0;

/** Does what keeps a thread of the process for as long as a person likes. */
export async function onWaitingThread<Result>(work: () => Promise<Result>): Promise<Result> {
  waitingThreads += 1;
  try {
    return await work();
  } finally {
    waitingThreads -= 1;
  }
}

/** At the end of the command: one that a signal has stopped does not wait for such threads, as Node does. */
export function endDespiteThreads(): void {
  if (signalFor(process.exitCode)) end(Number(process.exitCode));
}

/** By the signal itself where there are such threads: shells make the same exit code of it. */
function end(code: number): void {
  const signal = signalFor(code);
  if (signal === undefined) process.exit(code);
  process.emit('exit', code);
  if (process.stdin.isRaw) process.stdin.setRawMode(false);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

function signalFor(code: typeof process.exitCode): Signal | undefined {
  return waitingThreads > 0 ? signals.find((name) => codes[name] === code) : undefined;
}

/** Once for the command: what a lost reader means, with work to stop and without. */
export function endWithTheReader(): void {
  let told = false;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Whoever reads us may have read enough, as `head` does: that is no failure, and there is nobody to tell.
    const isGone = error.code === 'EPIPE' || (error.code === 'EIO' && process.stdout.isTTY);
    if (!isGone && !told)
      process.stderr.write(`service: Standard output cannot be written: ${error.message}.\n`);
    told = true;
    const code = isGone ? 0 : 1;
    onInterrupt('reader_left', code);
  });
  // The answer may still be read where the notices are not.
  process.stderr.on('error', () => undefined);
}

/** Where the process was begun to outlive its terminal, hang-ups are caught already, and ignored. */
const signals = (Object.keys(codes) as Signal[]) // keys of a type of our own
  .filter((name) => name !== 'SIGHUP' || process.listenerCount(name) === 0);

/** How many need to hear of signals. */
let heeding = 0;

/** Until the given function is called. */
function heedSignals(): () => void {
  heeding += 1;
  if (heeding === 1) for (const name of signals) process.on(name, onSignal);
  return () => {
    heeding -= 1;
    if (heeding === 0) for (const name of signals) process.off(name, onSignal);
  };
}

function onSignal(name: Signal): void {
  onInterrupt('signal', codes[name]);
}

function onInterrupt(what: Interrupt, code: number): void {
  const act = () => {
    const stop = catching.at(-1);
    if (stop) stop(what, code);
    else end(code);
  };
  if (holding.length === 0) return void act();
  if (held.length === 0 && what === 'signal') holding.at(-1)?.onHeld();
  held.push(act);
  for (const { came } of holding) came.abort();
}
