/** Settings that follow their files: read anew only when a file changed, appeared or went. */
import { lstatSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { type Diagnostic, SettingsError } from './diagnostic.ts';
import { asWarning, isBroken, readTrusted } from './load.ts';
import type { LiveSettings, LoadedSettings, SettingsPlaces } from './loaded-settings.ts';
import { candidatesOf, type FileContent } from './read-layers.ts';
import { settle } from './settle.ts';

/** How long a change may go unnoticed while nobody asks. */
const pollMs = 1000;
/** Some file systems count time in steps as long as this: a file may change twice with one time to show for it. */
const coarseMs = 50;

type Listener = (loaded: LoadedSettings, problems: readonly Diagnostic[]) => void;

/** Loads the settings and follows their files. Throws SettingsError where they cannot be used to begin with. */
export async function followSettings(places: SettingsPlaces): Promise<LiveSettings> {
  const followed = new FollowedSettings(places);
  await followed.begin();
  return {
    current: () => followed.current(),
    onChange: (listener) => followed.onChange(listener),
    close: () => followed.close(),
  };
}

/** What one reading gave. */
interface Reading {
  readonly loaded: LoadedSettings;
  /** Why files that are there cannot be used. */
  readonly problems: readonly Diagnostic[];
}

class FollowedSettings {
  readonly #places: SettingsPlaces;
  readonly #listeners: Listener[] = [];
  /** Of each file, what it last said that could be used. */
  readonly #lastGood = new Map<string, FileContent>();
  #snapshot: Snapshot | null = null;
  #reading: Reading | null = null;
  #running: Promise<LoadedSettings> | null = null;
  #next: Promise<LoadedSettings> | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(places: SettingsPlaces) {
    this.#places = places;
  }

  async begin(): Promise<void> {
    await this.current();
    const { problems } = this.#reading ?? { problems: [] };
    if (problems.length > 0) throw new SettingsError(problems);
  }

  /** Who asks while others wait shares their look at the files, but only one that begins after the question. */
  current(): Promise<LoadedSettings> {
    if (!this.#running) return this.#start();
    this.#next ??= this.#running.then(
      () => this.#start(),
      () => this.#start(),
    );
    return this.#next;
  }

  onChange(listener: Listener): void {
    this.#listeners.push(listener);
    this.#timer ??= setInterval(() => void this.#poll(), pollMs).unref();
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
    this.#listeners.length = 0;
  }

  #start(): Promise<LoadedSettings> {
    this.#next = null;
    const running = this.#look().finally(() => {
      if (this.#running === running) this.#running = null;
    });
    this.#running = running;
    return running;
  }

  async #poll(): Promise<void> {
    try {
      await this.current();
    } catch (error) {
      const loaded = this.#reading?.loaded;
      if (loaded) for (const listener of this.#listeners) listener(loaded, [unexpected(error)]);
    }
  }

  async #look(): Promise<LoadedSettings> {
    // Before reading: what changes while the files are read is noticed next time.
    const snapshot = takeSnapshot(this.#places);
    const before = this.#reading;
    if (before && this.#snapshot?.settled && this.#snapshot.text === snapshot.text) return before.loaded;
    const reading = await this.#read();
    this.#snapshot = snapshot;
    if (before && fingerprint(before) === fingerprint(reading)) return before.loaded;
    this.#reading = reading;
    if (before) for (const listener of this.#listeners) listener(reading.loaded, reading.problems);
    return reading.loaded;
  }

  /** What a file said before it broke still counts, but for what needs trust: nobody has trusted what it is now. */
  async #read(): Promise<Reading> {
    const { found, files, diagnostics: doubts } = await readTrusted(this.#places, this.#lastGood);
    this.#lastGood.clear();
    for (const { content } of files) this.#lastGood.set(content.file, content);
    const problems = found.filter(isBroken).flatMap(({ diagnostics }) => diagnostics);
    const stale = files.filter(({ broken }) => broken).map(({ content }) => countsAsBefore(content));
    const told = [...found.flatMap(({ diagnostics }) => diagnostics), ...stale, ...doubts];
    return { loaded: await settle(this.#places, files, told.map(asWarning)), problems };
  }
}

function countsAsBefore({ scope, file }: FileContent): Diagnostic {
  const restricted = scope === 'global' ? '' : ', but for its sections that need trust';
  return {
    severity: 'warning',
    place: { file, line: 1, column: 1 },
    pointer: '',
    message: `The file cannot be used as it is now; what it said before counts${restricted}`,
    expected: null,
    remedy: 'Mend it.',
  };
}

/** What tells two readings apart for those who use them. */
function fingerprint({ loaded, problems }: Reading): string {
  const layers = loaded.layers.map(({ file, realPath, sha256, trusted }) => [
    file,
    realPath,
    sha256,
    trusted,
  ]);
  return JSON.stringify([layers, loaded.ignored, loaded.diagnostics, problems]);
}

function unexpected(error: unknown): Diagnostic {
  const { code = 'unknown error' } = error as NodeJS.ErrnoException; // the file system rejects with nothing else
  return {
    severity: 'error',
    place: null,
    pointer: '',
    message: `The settings files could not be looked at (${code}); what they said before counts`,
    expected: null,
    remedy: 'See that the folders they are in can be read.',
  };
}

/** The state of every path that the settings depend on, those that are not there included. */
interface Snapshot {
  readonly text: string;
  /** False where a file changed so lately that it could change again without its times showing it. */
  readonly settled: boolean;
}

/** At once: asked asynchronously, a look at what is mostly not there costs forty times as much, and every step of a run looks. */
function takeSnapshot(places: SettingsPlaces): Snapshot {
  const takenAt = Date.now();
  const [first, ...more] = candidatesOf(places);
  // A server reads the person's own file alone: that needs no trust, and is the same by whatever path.
  const states = first && more.length === 0 ? [stateOf(first.file, false)] : statesOf(places);
  const latest = Math.max(...states.map(({ changedAt }) => changedAt));
  return { text: states.map(({ text }) => text).join('\n'), settled: latest < takenAt - coarseMs };
}

interface State {
  readonly text: string;
  readonly changedAt: number;
}

const absent: State = { text: '', changedAt: 0 };

/** Of all files and of the trust store. */
function statesOf(places: SettingsPlaces): State[] {
  const files = [...candidatesOf(places).map(({ file }) => file), join(places.dataHome, 'trust.json')];
  // Who may write there decides whether the store is believed.
  const folder = lookAt(places.dataHome);
  const store = folder ? { text: `${folder.ino}:${folder.uid}:${folder.mode}`, changedAt: 0 } : absent;
  return [...files.map((file) => stateOf(file, true)), store];
}

function stateOf(file: string, byPath: boolean): State {
  const itself = lookAt(file);
  if (!itself) return absent;
  // A folder on the way may have become a link: the same file, but another real path.
  const realPath = byPath || itself.isSymbolicLink() ? orNull(() => realpathSync.native(file)) : '';
  const target = realPath && itself.isSymbolicLink() ? lookAt(realPath) : itself;
  const { dev, ino, size, mode, uid, mtimeNs, ctimeNs } = target ?? itself;
  const text = [realPath, itself.ino, dev, ino, size, mode, uid, mtimeNs, ctimeNs].join(':');
  return { text, changedAt: Number(ctimeNs / 1_000_000n) };
}

function lookAt(path: string) {
  return orNull(() => lstatSync(path, { bigint: true, throwIfNoEntry: false })) ?? null;
}

/** What cannot be looked at is as good as absent. */
function orNull<Found>(look: () => Found): Found | null {
  try {
    return look();
  } catch {
    return null;
  }
}
