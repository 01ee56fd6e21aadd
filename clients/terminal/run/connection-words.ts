/** Tells that nothing is heard of the run any more: without it a person waits, and does not know for what. */
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

/** What is told, and what once it is over. */
const troubles = {
  server: {
    lost: 'The server is not reached. The run goes on there; its events follow once it is.',
    restored: 'The server is reached again.',
  },
  login: {
    lost: 'The login is not renewed yet. The run goes on at the server; its events follow once it is.',
    restored: 'The login is renewed.',
  },
};

/** @param awaitsLogin - Whether what is not heard of waits for the login. */
export function createConnectionWords(display: RunDisplay, awaitsLogin: () => boolean): ConnectionWords {
  let timer: NodeJS.Timeout | undefined;
  let told: keyof typeof troubles | null = null;
  const say = (words: string) => display.aside(paint('yellow', `↻ ${words}`, process.stderr));
  return {
    changed(change) {
      clearInterval(timer);
      if (change === 'lost')
        timer = setInterval(() => {
          const trouble = awaitsLogin() ? 'login' : 'server';
          // The login may turn out to be over once the server is there; while that is tried, nothing is said to and fro.
          if (told === trouble || told === 'login') return;
          told = trouble;
          say(troubles[told].lost);
        }, graceMs);
      else if (told !== null) {
        say(troubles[told].restored);
        told = null;
      }
    },
    close: () => clearInterval(timer),
  };
}
