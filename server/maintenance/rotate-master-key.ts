/** Gives an installation another master key while its servers are at work. */
import { realpath } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { withLock } from '../config/config.ts';
import { beginRotation, createSealing, endRotation, idOf, loadMasterKey } from '../identity/identity.ts';
import type { ServerSettings } from '../server-settings/server-settings.ts';
import type { SealedValue, SealedValues } from '../store/store.ts';
import { type Installation, openInstallation, syncCommits } from './installation.ts';

/** What was done. */
export interface MasterKeyRotation {
  readonly keyFile: string;
  /** How many secrets were sealed anew. */
  readonly resealed: number;
}

/** A request that has sealed something with the old key stores it within this time. */
const stragglersMs = 2000;

/**
 * The new key joins the old one in the file, which every server looks at again before it seals or opens something; then
 * all that is sealed is sealed anew; then the old key goes. Interrupted anywhere, it is done to the end by another call;
 * several calls at once make one new key.
 */
export async function rotateMasterKey(
  settings: Installation & Pick<ServerSettings, 'masterKeyFile'>,
): Promise<MasterKeyRotation> {
  const store = await openInstallation(settings);
  try {
    const { path } = await loadMasterKey({ ...settings, database: store.dialect });
    const keys = await alone(path, () => beginRotation(path));
    const reseal = () => sealAnew(store.sealedValues, keys);
    let resealed = await reseal();
    await sleep(stragglersMs);
    resealed += await reseal();
    // The key file without the old key is on the disk at once; what is still sealed with it there opened no more.
    await syncCommits(settings);
    await alone(path, () => endRotation(path, keys));
    // The keys are still in hand here, whatever came in between.
    return { keyFile: path, resealed: resealed + (await reseal()) };
  } finally {
    await store.close();
  }
}

/** While nobody else changes the file of the key. */
async function alone<T>(path: string, change: () => Promise<T>): Promise<T> {
  const place = await realpath(path);
  return await withLock(dirname(place), basename(place), change);
}

async function sealAnew(values: SealedValues, keys: readonly Buffer[]): Promise<number> {
  const sealing = createSealing({ current: () => keys });
  const keyId = keys[0] ? idOf(keys[0]) : '';
  let count = 0;
  let last: SealedValue | null = null;
  for (;;) {
    const some = await values.notUnder(keyId, last);
    last = some.at(-1) ?? null;
    if (last === null) return count;
    for (const value of some)
      await values.replace(value, sealing.seal(sealing.open(value.sealed, value.rowId), value.rowId));
    count += some.length;
  }
}
