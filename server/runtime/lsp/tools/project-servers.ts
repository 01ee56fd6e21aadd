/** The language servers of a whole project: those that are in use, or else those that a file of it would start. */
import { ToolInputError } from '../../tools/tool.ts';
import { readDocument } from '../documents.ts';
import type { LanguageServer } from '../language-server.ts';
import { interruptible, type LspToolParts, type ReadyServer } from './server-use.ts';

/** Throws ToolInputError where there is none, or none works. */
export async function projectServers(
  parts: LspToolParts,
  workspacePath: string,
  signal: AbortSignal,
): Promise<readonly ReadyServer[]> {
  const samples = await parts.samples(workspacePath);
  const sampled = samples.flatMap((path) =>
    parts.serversFor(path, workspacePath).map((server) => ({ server, path })),
  );
  const others = parts.known(workspacePath).filter((server) => !sampled.some((one) => one.server === server));
  const wanted = new Map<LanguageServer, string | null>();
  for (const { server, path } of [...sampled, ...others.map((server) => ({ server, path: null }))])
    if (!wanted.has(server)) wanted.set(server, path);
  const started = await Promise.all([...wanted].map(([server, path]) => start(server, path, signal)));
  const ready = started.filter((one) => typeof one !== 'string');
  if (ready.length > 0) return ready;
  throw new ToolInputError(
    started.join('\n') ||
      `No language server handles a file of this project. ${parts.describe(workspacePath)}`,
  );
}

/** The server, or why it cannot be used. */
async function start(
  server: LanguageServer,
  path: string | null,
  signal: AbortSignal,
): Promise<ReadyServer | string> {
  try {
    const client = await interruptible(server.use(), signal);
    // Some look at a project only once a document of it is open.
    if (path !== null && readDocument(path) !== null) client.documents.sync(path);
    return { server, client };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return `The language server ${server.definition.name} cannot be used: ${message}.`;
  }
}
