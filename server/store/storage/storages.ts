/** The storages of an installation: which one takes new files, and which have the old ones. */
import { Problem } from '../../problem.ts';
import { diskStorage } from './disk.ts';
import type { Storages } from './storage.ts';

/** As long as nobody has set another limit. */
const defaultMaxFileBytes = 100 * 1024 * 1024;

export function storagesOf(filesDirectory: string | undefined): Storages {
  const disk = filesDirectory === undefined ? null : diskStorage(filesDirectory);
  const required = async (backend: 'fs' | 's3') => {
    if (backend === 'fs' && disk) return disk;
    throw new Problem(
      'storage_unavailable',
      'The storage of this file is not set up here; tell the operator.',
    );
  };
  return {
    current: async () => ({ storage: await required('fs'), maxFileBytes: defaultMaxFileBytes }),
    of: required,
  };
}
