/** A person's home and a project beside it, on a real disk, for the tests of loading. */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { findPlaces } from './files/places.ts';
import { loadSettings } from './load.ts';
import type { LoadedSettings, SettingsPlaces } from './loaded-settings.ts';
import { recordTrust } from './trust/trust-store.ts';

export interface TestProject {
  readonly home: string;
  /** The root of a git repository. */
  readonly root: string;
  /** The person's own settings file. */
  readonly globalFile: string;
  /** Writes a file of the project, or one whose path is absolute; settings may be given as an object. */
  put(path: string, content: string | Uint8Array | object): Promise<string>;
  path(path: string): string;
  places(folder?: string): Promise<SettingsPlaces>;
  load(folder?: string): Promise<LoadedSettings>;
  /** Trusts the file as it is now. */
  trust(path: string): Promise<void>;
}

/** Makes both, and removes them when the test is over. */
export async function testProject(): Promise<TestProject> {
  const base = await realpath(await mkdtemp(join(tmpdir(), 'service-project-')));
  onTestFinished(() => rm(base, { recursive: true, force: true }));
  const [home, root] = [join(base, 'home'), join(base, 'project')];
  await mkdir(join(root, '.git'), { recursive: true });
  await writeFile(join(root, '.git', 'HEAD'), 'ref: refs/heads/main\n');
  await mkdir(home);
  const path = (name: string) => (name.startsWith('/') ? name : join(root, name));
  const places = (folder = '.') => findPlaces(path(folder), {}, home);
  return {
    home,
    root,
    globalFile: join(home, '.config/service/service.json'),
    path,
    places,
    put: async (name, content) => {
      await mkdir(dirname(path(name)), { recursive: true });
      const plain = typeof content === 'string' || content instanceof Uint8Array;
      await writeFile(path(name), plain ? content : JSON.stringify(content));
      return path(name);
    },
    load: async (folder) => loadSettings(await places(folder)),
    trust: async (name) => {
      const bytes = await readFile(path(name));
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      const file = { realPath: await realpath(path(name)), sha256, review: '' };
      await recordTrust(join(home, '.local/share/service'), root, [file], new Date());
    },
  };
}
