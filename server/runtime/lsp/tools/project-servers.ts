/** The language servers of a whole project: those that are in use, or else those that a file of it would start. */
import { ToolInputError } from '../../tools/tool.ts';
import { readDocument } from '../documents.ts';
import type { LspToolParts, ReadyServer } from './server-use.ts';

/** Throws ToolInputError where there is none, or none works. */
export async function projectServers(
  parts: LspToolParts,
  workspacePath: string,
  signal: AbortSignal,
): Promise<readonly ReadyServer[]> {
  const failures: string[] = [];
  const ready: ReadyServer[] = [];
  const samples = await parts.samples(workspacePath);
  const sampled = samples.flatMap((path) =>
    parts.serversFor(path, workspacePath).map((server) => ({ server, path })),
  );
  const others = parts.known(workspacePath).filter((server) => !sampled.some((one) => one.server === server));
  for (const { server, path } of [...sampled, ...others.map((server) => ({ server, path: null }))]) {
    if (signal.aborted || ready.some((one) => one.server === server)) continue;
    try {
      const client = await server.use();
      // Some look at a project only once a document of it is open.
      if (path !== null && readDocument(path) !== null) client.documents.sync(path);
      ready.push({ server, client });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      failures.push(`The language server ${server.definition.name} cannot be used: ${message}.`);
    }
  }
  if (ready.length > 0) return ready;
  throw new ToolInputError(
    failures.join('\n') ||
      `No language server handles a file of this project. ${parts.describe(workspacePath)}`,
  );
}
