/** Shows that something is going on while nothing is printed. */

import { columnsOf, widthOf } from '../output.ts';

/** One line at the bottom of the terminal that moves, and leaves nothing behind. */
export interface Progress {
  /** Shows the line, or changes its words. */
  show(words: string): void;
  /** Takes the line away, before anything else is written. */
  hide(): void;
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const frameMs = 90;
const clearLine = '\r\x1b[2K';

/** For where there is no terminal, or nobody wants it. */
export const noProgress: Progress = { show: () => undefined, hide: () => undefined };

/** On standard error, so that standard output stays what was asked for. */
export function startProgress(): Progress {
  let words: string | null = null;
  let frame = 0;
  let timer: NodeJS.Timeout | undefined;
  const draw = () => {
    frame = (frame + 1) % frames.length;
    process.stderr.write(`${clearLine}${frames[frame]} ${fitting(words ?? '')}`);
  };
  const hide = () => {
    if (words === null) return;
    clearInterval(timer);
    words = null;
    process.stderr.write(clearLine);
  };
  // The cursor stays visible: a process that is killed could not bring it back.
  process.once('exit', hide);
  return {
    show(next) {
      if (words === null) {
        timer = setInterval(draw, frameMs);
        // The line alone keeps no process alive.
        timer.unref();
      }
      words = next;
      draw();
    },
    hide,
  };
}

/** As much as stands on one line: what wraps would stay behind. */
function fitting(words: string): string {
  const cells = Math.max(10, columnsOf(process.stderr, 80) - 4);
  let shown = words.slice(0, cells);
  while (widthOf(shown) > cells) shown = shown.slice(0, -1);
  return shown;
}
