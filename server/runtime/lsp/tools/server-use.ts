/** How the tools of this folder come to a language server, and what they say where there is none. */

import { z } from 'zod';
import { defineTool, success, type ToolDefinition } from '../../tools/define-tool.ts';
import { type Tool, ToolInputError } from '../../tools/tool.ts';
import { type ResolvedPath, resolvePath } from '../../tools/workspace-path.ts';
import { uriOf } from '../diagnostics.ts';
import { readDocument } from '../documents.ts';
import { LanguageServerFailure } from '../failure.ts';
import type { LanguageClient } from '../language-client.ts';
import type { LanguageServer, LspTimes } from '../language-server.ts';
import { type PlaceInput, type Position, positionIn } from '../place-in-file.ts';

/** What the tools work with. */
export interface LspToolParts {
  serversFor(path: string, workspacePath: string): readonly LanguageServer[];
  known(workspacePath: string): readonly LanguageServer[];
  /** The servers that the settings have for any file of the workspace, in words. */
  describe(workspacePath: string): string;
  /** A file for each server that could serve one, for questions about the whole project. */
  samples(workspacePath: string): Promise<readonly string[]>;
  readonly times: LspTimes;
}

/** A tool that only asks: it needs nobody's leave, and a failure of the server is a result. */
export function askingTool<Input extends z.ZodType>(
  definition: Pick<ToolDefinition<Input>, 'name' | 'description' | 'input'>,
  answer: (
    input: z.output<Input>,
    place: { readonly workspacePath: string; readonly signal: AbortSignal },
  ) => Promise<string>,
): Tool {
  return defineTool({
    ...definition,
    idempotent: true,
    needsPermission: false,
    prepare: (input, { workspacePath, signal }) => ({
      permission: null,
      async run() {
        try {
          return success(await answer(input, { workspacePath, signal }));
        } catch (error) {
          // The tool's own way of answering with what went wrong.
          if (error instanceof LanguageServerFailure)
            throw new ToolInputError(`${error.message}.`, { cause: error });
          throw error;
        }
      },
    }),
  });
}

/** The place of a name in a file, as the model tells it. */
export const placeInput = {
  file_path: z.string().min(1).describe('The file, relative to the workspace or absolute'),
  symbol: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('The name as it stands in the file; it makes a column needless'),
  line: z
    .int()
    .min(1)
    .optional()
    .describe('The line that the name is on, from 1; without it its first occurrence counts'),
  column: z.int().min(1).optional().describe('Only where no name is given: the column, from 1'),
};

/** The file that a tool is asked about; only files of the workspace are. */
export async function fileOf(filePath: string, workspacePath: string): Promise<ResolvedPath> {
  const path = await resolvePath(filePath, workspacePath);
  if (!path.inside)
    throw new ToolInputError(
      `${filePath} lies outside the workspace; language servers are asked about its files only.`,
    );
  return path;
}

/** A server that is ready for a file. */
export interface ReadyServer {
  readonly server: LanguageServer;
  readonly client: LanguageClient;
}

/** Every server for the file, started if need be. Throws ToolInputError where there is none, or none works. */
export async function readyServers(
  { serversFor, describe }: LspToolParts,
  path: ResolvedPath,
  signal: AbortSignal,
): Promise<readonly ReadyServer[]> {
  const servers = serversFor(path.real, path.workspace);
  if (servers.length === 0)
    throw new ToolInputError(`No language server handles ${path.shown}. ${describe(path.workspace)}`);
  if (readDocument(path.real) === null)
    throw new ToolInputError(`${path.shown} is not there, not text, or too large for a language server.`);
  const ready: ReadyServer[] = [];
  const failures: string[] = [];
  for (const server of servers)
    await interruptible(server.use(), signal).then(
      (client) => ready.push({ server, client }),
      (error: Error) =>
        failures.push(`The language server ${server.definition.name} cannot be used: ${error.message}.`),
    );
  if (ready.length === 0) throw new ToolInputError(failures.join('\n'));
  return ready;
}

/** What one server answered, or a sentence for the model on why it did not. */
export type FromServer<Answer> =
  | { readonly answer: Answer; readonly failure: null }
  | { readonly answer: null; readonly failure: string };

/** Asks each; one that fails does not take the answers of the others along. Rejects where it is the only one. */
export async function fromEach<Answer>(
  ready: readonly ReadyServer[],
  ask: (one: ReadyServer) => Promise<Answer>,
): Promise<readonly FromServer<Answer>[]> {
  return await Promise.all(
    ready.map(async (one): Promise<FromServer<Answer>> => {
      try {
        return { answer: await ask(one), failure: null };
      } catch (error) {
        if (!(error instanceof LanguageServerFailure) || ready.length === 1) throw error;
        const { name } = one.server.definition;
        return { answer: null, failure: `The language server ${name} cannot be used: ${error.message}.` };
      }
    }),
  );
}

/** Asks the first server for the file that knows the method, at the place that is meant. */
export async function askAt(
  parts: LspToolParts,
  method: string,
  input: PlaceInput & { readonly file_path: string },
  place: { readonly workspacePath: string; readonly signal: AbortSignal },
  more: object = {},
): Promise<{ readonly answer: unknown; readonly name: string }> {
  const path = await fileOf(input.file_path, place.workspacePath);
  const ready = await readyServers(parts, path, place.signal);
  const able = ready.find(({ client }) => client.supports(method));
  if (!able) throw new ToolInputError(`The language server ${namesOf(ready)} does not answer this.`);
  const position = positionIn(readDocument(path.real) ?? '', input);
  const answer = await requestAt(able.client, method, path.real, { position, ...more }, parts, place.signal);
  return { answer, name: able.server.definition.name };
}

/** Asks about a document that the server has open as it is on disk. */
export async function requestAt(
  client: LanguageClient,
  method: string,
  path: string,
  params: { readonly position?: Position },
  { times }: LspToolParts,
  signal: AbortSignal,
): Promise<unknown> {
  await client.refresh();
  client.documents.sync(path);
  const textDocument = { uri: uriOf(path) };
  return await client.request(method, { textDocument, ...params }, { timeoutMs: times.requestMs, signal });
}

/** The promise, or a failure as soon as the run is interrupted. */
export async function interruptible<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const stopped = Promise.withResolvers<never>();
  const stop = () => stopped.reject(new LanguageServerFailure('interrupted'));
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    return await Promise.race([promise, stopped.promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function namesOf(ready: readonly ReadyServer[]): string {
  return ready.map(({ server }) => server.definition.name).join(', ');
}
