/** The tool that tells what language servers find wrong with a file, or with all of a project that they looked at. */
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { statsInPlace } from '../../tools/read-in-place.ts';
import { type Tool, ToolInputError } from '../../tools/tool.ts';
import { type FileReport, pathOf, type Reports, reportOf } from '../diagnostics.ts';
import { judge, requestUntilTaken } from '../judgement.ts';
import type { LanguageClient } from '../language-client.ts';
import { isInside } from '../server-choice.ts';
import { itemsOf, memberOf, textOf } from '../server-requests.ts';
import { countsOf, diagnosticLines, shownPath } from '../shown.ts';
import { projectServers } from './project-servers.ts';
import { askingTool, fileOf, fromEach, type LspToolParts, readyServers } from './server-use.ts';

const mostOfFile = 50;
const mostFiles = 50;
const mostOfEach = 10;
/** How long the report of a single file, and of a project, is waited for. */
const fileMs = 15_000;
const projectMs = 5000;

/** Builds the `diagnostics` tool. */
export function diagnosticsTool(parts: LspToolParts): Tool {
  return askingTool(
    {
      name: 'diagnostics',
      description:
        'Tells the errors and warnings that language servers find in a file, as it is on disk now; without file_path, ' +
        'in all files of the project that they have looked at. After edit and write you are told those of the ' +
        'changed file anyway.',
      input: z.strictObject({
        file_path: z.string().min(1).optional().describe('The file, relative to the workspace or absolute'),
      }),
    },
    async ({ file_path }, { workspacePath, signal }) =>
      file_path === undefined
        ? await ofProject(parts, workspacePath, signal)
        : await ofFile(parts, file_path, workspacePath, signal),
  );
}

async function ofFile(
  parts: LspToolParts,
  filePath: string,
  workspacePath: string,
  signal: AbortSignal,
): Promise<string> {
  const path = await fileOf(filePath, workspacePath);
  const ready = await readyServers(parts, path, signal);
  const { quietMs, requestMs } = parts.times;
  const limits = { timeoutMs: Math.min(fileMs, requestMs), quietMs, signal };
  const shown: (() => void)[] = [];
  const told = await fromEach(ready, async ({ server, client }) => {
    const { name } = server.definition;
    const report = await judge(client, path.real, limits);
    if (typeof report === 'string')
      return `${name} has said nothing about ${path.shown} within ${limits.timeoutMs / 1000} s.`;
    shown.push(() => server.knownErrors.tell(path.real, report));
    const lines = diagnosticLines(report.diagnostics, report.total, mostOfFile);
    return [`${path.shown} has ${countsOf(report)} (${name})${lines ? ':' : '.'}`, lines]
      .filter(Boolean)
      .join('\n');
  });
  if (signal.aborted) throw new ToolInputError('Interrupted.');
  // Not before: nothing counts as told that nobody will see.
  for (const tell of shown) tell();
  return told.map(({ answer, failure }) => answer ?? failure).join('\n\n');
}

async function ofProject(parts: LspToolParts, workspacePath: string, signal: AbortSignal): Promise<string> {
  const ready = await projectServers(parts, workspacePath, signal);
  const shown: (() => void)[] = [];
  const told = await fromEach(ready, async ({ server, client }) => {
    await settle(client, parts, signal);
    const files = filesWithFaults(client.reports, workspacePath);
    const tell = ([path, report]: [string, FileReport]) => server.knownErrors.tell(path, report);
    shown.push(() => files.slice(0, mostFiles).forEach(tell));
    return projectSection(server.definition.name, files, client.reports.all().size, workspacePath);
  });
  if (signal.aborted) throw new ToolInputError('Interrupted.');
  // Not before: nothing counts as told that nobody will see.
  for (const tell of shown) tell();
  return told.map(({ answer, failure }) => answer ?? failure).join('\n\n');
}

/** Asks for the whole project where the server answers that, and else waits until it has said what it wants to say. */
async function settle(client: LanguageClient, { times }: LspToolParts, signal: AbortSignal): Promise<void> {
  await client.refresh();
  const options = client.optionsOf('textDocument/diagnostic');
  if (memberOf(options, 'workspaceDiagnostics') === true) {
    const identifier = textOf(options, 'identifier');
    const params = { previousResultIds: [], ...(identifier !== undefined && { identifier }) };
    const limits = { timeoutMs: times.requestMs, signal };
    const answer = await requestUntilTaken(client, 'workspace/diagnostic', params, limits);
    for (const report of itemsOf(answer, 'items')) {
      const path = pathOf(textOf(report, 'uri'));
      if (path !== null) client.reports.answer(path, reportOf(itemsOf(report, 'items'), null));
    }
    return;
  }
  const until = performance.now() + Math.min(projectMs, times.requestMs);
  const quiet = () => {
    const { newest } = client.reports;
    return newest !== null && performance.now() - newest > 2 * times.quietMs;
  };
  while (!quiet() && performance.now() < until && !signal.aborted) {
    client.assertAlive();
    await delay(25);
  }
  client.assertAlive();
}

/** Those with the most errors first. */
function filesWithFaults(reports: Reports, workspacePath: string): [string, FileReport][] {
  // Of files that were never open nobody is told that they are gone.
  return [...reports.all()]
    .filter(([path, { total }]) => total > 0 && isInside(workspacePath, path) && statsInPlace(path) !== null)
    .toSorted(([, one], [, other]) => other.errors - one.errors);
}

function projectSection(
  name: string,
  files: readonly [string, FileReport][],
  lookedAt: number,
  workspacePath: string,
): string {
  if (files.length === 0)
    return `${name} finds nothing wrong in the ${lookedAt} files that it has looked at.`;
  const parts = files.slice(0, mostFiles).map(([path, report]) => {
    const lines = diagnosticLines(report.diagnostics, report.total, mostOfEach);
    return `${shownPath(path, workspacePath)} has ${countsOf(report)}:\n${lines}`;
  });
  if (files.length > mostFiles) parts.push(`… and ${files.length - mostFiles} more files`);
  return `${name}:\n${parts.join('\n')}`;
}
