/** `make embedder`: the command that installs the embedding model, without the rest of `service`. */
import { installEmbedderCommand } from './maintenance.ts';

if (import.meta.main) {
  installEmbedderCommand(process.argv.slice(2)).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  });
}
