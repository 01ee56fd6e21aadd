/** Whether an installation belongs to one person or to many: a second account turns `single` into `multi`, on every node. */
import type { Log } from '../log.ts';
import type { Capabilities } from '../services.ts';

type Mode = Capabilities['mode'];

interface ModeOptions {
  /** As the settings have it. */
  readonly mode: Mode;
  readonly countAccounts: () => Promise<number>;
  readonly log: Log;
}

export interface FollowedMode {
  current(): Mode;
  /** There are so many accounts by now. */
  heard(accounts: number): void;
  /** From now on also hears of accounts that come in at other nodes of the same database. Calls back once it changes. */
  follow(changed: () => void): void;
  stop(): Promise<void>;
}

/** So long another node may still take itself for that of one person. */
const lookMs = 2000;

export async function openMode({ mode: set, countAccounts, log }: ModeOptions): Promise<FollowedMode> {
  let mode: Mode = set === 'multi' || (await countAccounts()) > 1 ? 'multi' : 'single';
  let tell: () => void = () => undefined;
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | null = null;

  const heard = (accounts: number): void => {
    if (mode === 'multi' || accounts < 2) return;
    mode = 'multi';
    clearInterval(timer);
    tell();
    log.warn('there is a second account: from now on commands run in a sandbox only (mode multi)');
  };
  const look = (): void => {
    looking ??= countAccounts()
      .then(heard)
      .catch((error: unknown) => log.error({ err: error }, 'accounts could not be counted'))
      .finally(() => {
        looking = null;
      });
  };
  return {
    current: () => mode,
    heard,
    follow(changed) {
      tell = changed;
      if (mode === 'multi') return;
      timer = setInterval(look, lookMs);
      timer.unref();
    },
    async stop() {
      clearInterval(timer);
      await looking;
    },
  };
}
