// The tool that saves what a URL gives as a file.
import { dirname } from 'node:path';
import { z } from 'zod';
import type { Outbound } from '../../outbound/outbound.ts';
import { defineTool, success } from './define-tool.ts';
import { withNote } from './edit.ts';
import { knownFile, saveFile } from './saved-file.ts';
import type { Tool, ToolContext, ToolOutput } from './tool.ts';
import { askServer, bodyOf, mediaTypeIn, webUrl } from './web-request.ts';
import {
  assertWritable,
  type PathRules,
  type ResolvedPath,
  resolveAgain,
  resolvePath,
} from './workspace-path.ts';

const input = z.strictObject({
  url: z.string().min(1).max(4096).describe('The http or https URL'),
  file_path: z.string().min(1).describe('Where to save it, relative to the workspace or absolute'),
  timeout_seconds: z.int().min(1).max(600).default(300).describe('How long it may take in all'),
});

type Download = z.output<typeof input>;

const maxBytes = 100 * 1024 * 1024;

/** Builds the `download` tool. */
export function downloadTool(rules: PathRules, outbound: Outbound): Tool {
  return defineTool({
    name: 'download',
    description:
      'Saves what a URL of the web gives as a file, whatever its type, up to 100 MB, making missing folders. A file ' +
      'that is there already has to be viewed first. It sends no credentials. Use fetch to read a page.',
    idempotent: false,
    needsPermission: true,
    input,
    async prepare(request, context) {
      const url = webUrl(request.url);
      const path = await resolvePath(request.file_path, context.workspacePath);
      assertWritable(rules, path);
      const before = await knownFile(path, context);
      return {
        permission: {
          action: 'download',
          description: `Download ${url.href} ${before ? 'over' : 'to'} ${path.shown}`,
          path: dirname(path.real),
          file: path.real,
          params: { ...request, url: url.href },
        },
        run: () => save(outbound, url, path, request, context),
      };
    },
  });
}

async function save(
  outbound: Outbound,
  url: URL,
  path: ResolvedPath,
  { timeout_seconds }: Download,
  context: ToolContext,
): Promise<ToolOutput> {
  const limits = { maxBytes, totalMs: timeout_seconds * 1000, asSent: true };
  const { signal, hidden } = context;
  const response = await askServer(outbound, url, limits, { signal, hidden, accept: '*/*' });
  const type = mediaTypeIn(response.headers.get('content-type')) ?? 'of no known type';
  await resolveAgain(path);
  const { bytes, note } = await saveFile(bodyOf(response), path, context);
  const said = `Downloaded ${response.url} to ${path.shown} (${bytes} bytes, ${type}).`;
  return success(withNote(said, note), { path: path.shown, url: response.url, bytes, type });
}
