/** Tells extensions of the files that an agent reads and changes; what goes wrong there is no fault of the file. */
import type { FileMemory } from '../tools/tool.ts';
import type { RunScope } from './run-scope.ts';

type Scope = Pick<RunScope, 'extensions' | 'extensionPlace' | 'files' | 'log' | 'runId' | 'signal'>;

/** Extensions are told what is read, so that a language server is ready by the time of the first edit. */
export function noticedFiles(scope: Scope): FileMemory {
  const { files, extensions, extensionPlace } = scope;
  return {
    ...files,
    remember(path, version) {
      files.remember(path, version);
      for (const extension of extensions)
        try {
          extension.noticeRead?.(path, extensionPlace());
        } catch (error) {
          complain(scope, extension.name, error);
        }
    },
  };
}

/** What extensions say of a changed file. A change that was made is not told as one that failed: it would be made again. */
export async function noteAfterChange(scope: Scope, path: string): Promise<string> {
  const { extensions, extensionPlace, signal } = scope;
  const notes = await Promise.all(
    extensions.map(async (extension) => {
      try {
        return await extension.noteAfterChange?.(path, extensionPlace(), signal);
      } catch (error) {
        complain(scope, extension.name, error);
        return '';
      }
    }),
  );
  return notes.filter(Boolean).join('\n\n');
}

function complain({ log, runId }: Scope, extension: string, error: unknown): void {
  log.error({ err: error, run_id: runId, extension }, 'an extension failed at a file');
}
