/** Checks of the logins to remote servers: whether they can be read, and the servers reached. No credential is sent. */
import { openLogins } from '../logins/logins.ts';
import type { Finding, Scene } from './examination.ts';

const limitMs = 3000;

/** Each server that there is a login to is asked whether it is there. */
export async function examineLogins({ places }: Scene): Promise<Finding[]> {
  try {
    const origins = await openLogins(places.dataHome).origins();
    if (origins.length === 0) return [{ level: 'ok', message: 'There are none.' }];
    return await Promise.all(origins.map(serverFinding));
  } catch (error) {
    return [{ level: 'problem', message: error instanceof Error ? error.message : String(error) }];
  }
}

async function serverFinding(origin: string): Promise<Finding> {
  try {
    const response = await fetch(`${origin}/health`, {
      redirect: 'error',
      signal: AbortSignal.timeout(limitMs),
    });
    await response.body?.cancel();
    if (response.ok) return { level: 'ok', message: `${origin} answers.` };
    return {
      level: 'warning',
      message: `${origin} answers with ${response.status}.`,
      remedy: 'Ask whoever runs it.',
    };
  } catch (error) {
    const { cause } = error as { readonly cause?: unknown }; // fetch rejects with an Error, which says why there
    const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
    const remedy = `Look whether it runs; if it is no more: service logout ${origin}`;
    return { level: 'warning', message: `${origin} cannot be reached${code}.`, remedy };
  }
}
