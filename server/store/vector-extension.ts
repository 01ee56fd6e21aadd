/** The extension that lets SQLite compare vectors: a library beside the program, loaded by each connection. */
import { getLoadablePath } from 'sqlite-vec';
import type { Log } from '../log.ts';

interface Connection {
  loadExtension(path: string, done: (error: Error | null) => void): void;
}

/** Without it, searches go by words alone: there are systems that it is not built for. */
export function loadVectors(connection: Connection, log: Log): Promise<void> {
  return new Promise((resolve) => {
    const proceed = (error: Error | null): void => {
      if (error) log.warn({ err: error }, 'SQLite cannot compare vectors here: searches go by words alone');
      resolve();
    };
    try {
      connection.loadExtension(getLoadablePath(), proceed);
    } catch (error) {
      proceed(error instanceof Error ? error : new Error(String(error)));
    }
  });
}
