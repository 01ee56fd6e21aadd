/** Tells extensions of the files that an agent reads and changes; what goes wrong there is no fault of the file. */
import type { RunScope } from './run-scope.ts';

type Scope = Pick<RunScope, 'extensions' | 'extensionPlace' | 'log' | 'runId' | 'signal'>;

/** Extensions are told what is read, so that a language server is ready by the time of the first edit. */
export function noticeRead(scope: Scope, path: string): void {
  for (const extension of scope.extensions)
    try {
      extension.noticeRead?.(path, scope.extensionPlace());
    } catch (error) {
      complain(scope, extension.name, error);
    }
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
