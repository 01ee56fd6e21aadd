/** Tells that nothing is heard of the server any more: without it a person waits, and does not know for what. */
import type { StreamOptions } from '@service/client/stream';
import { paint } from '../output.ts';
import type { RunDisplay } from './run-display.ts';

/** Proxies cut what is long, and the next connection is there at once: that need not be told. */
const graceMs = 2000;

/** Says what becomes of the connection of one run. */
export interface ConnectionWords {
  readonly changed: NonNullable<StreamOptions['onConnection']>;
  /** The run has ended, or the stream was given up. */
  close(): void;
}

export function createConnectionWords(display: RunDisplay): ConnectionWords {
  let timer: NodeJS.Timeout | undefined;
  let isTold = false;
  const say = (words: string) => display.aside(paint('yellow', `↻ ${words}`, process.stderr));
  return {
    changed(change) {
      clearTimeout(timer);
      if (change === 'lost')
        timer = setTimeout(() => {
          isTold = true;
          say('The server is not reached. The run goes on there; its events follow once it is.');
        }, graceMs);
      else if (isTold) {
        isTold = false;
        say('The server is reached again.');
      }
    },
    close: () => clearTimeout(timer),
  };
}
