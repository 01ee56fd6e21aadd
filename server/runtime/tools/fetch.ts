// The tool that reads a page of the web.
import { z } from 'zod';
import type { Outbound } from '../../outbound/outbound.ts';
import { defineTool, success } from './define-tool.ts';
import { fromTheWeb } from './foreign-text.ts';
import { pageText } from './page-text.ts';
import type { Tool, ToolContext, ToolOutput } from './tool.ts';
import { askServer, readBody, webUrl } from './web-request.ts';

const input = z.strictObject({
  url: z.string().min(1).max(4096).describe('The http or https URL'),
  format: z
    .enum(['markdown', 'text', 'html'])
    .default('markdown')
    .describe('How a page is given: as Markdown, as text without markup, or as it is'),
  timeout_seconds: z.int().min(1).max(120).default(30).describe('How long it may take in all'),
});

/** What is read of a page; its text is far smaller. */
const maxBytes = 2 * 1024 * 1024;
const maxResultBytes = 100 * 1024;

/** Builds the `fetch` tool. */
export function fetchTool(outbound: Outbound): Tool {
  return defineTool({
    name: 'fetch',
    description:
      'Reads a URL of the web and gives its content: pages as Markdown unless another format is asked for, other text ' +
      'as it is. It changes nothing and sends no credentials. Use download for images, archives and other files.',
    idempotent: true,
    needsPermission: true,
    input,
    prepare(request, context) {
      const url = webUrl(request.url);
      return {
        permission: {
          action: 'fetch',
          description: `Fetch ${url.href}`,
          path: context.workspacePath,
          params: { ...request, url: url.href },
        },
        run: () => read(outbound, url, request, context),
      };
    },
  });
}

async function read(
  outbound: Outbound,
  url: URL,
  { format, timeout_seconds }: z.output<typeof input>,
  context: ToolContext,
): Promise<ToolOutput> {
  const { signal, hidden } = context;
  const limits = { maxBytes: 4 * maxBytes, totalMs: timeout_seconds * 1000 };
  const response = await askServer(outbound, url, limits, {
    ...{ signal, hidden },
    accept: 'text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1',
  });
  const type = response.headers.get('content-type') ?? '';
  const body = await readBody(response, maxBytes);
  const page = await pageText({ body: body.bytes, type, format, url: new URL(response.url) }, context);
  const { text, cut } = cutToBytes(page.text, maxResultBytes);
  const isCut = cut || body.cut;
  const place = response.url === url.href ? url.href : `${url.href}, which led to ${response.url}`;
  return success(
    [
      `Fetched ${place}.`,
      ...(isCut
        ? ['It is longer: the rest is left out. Use download to save all of it, then view or grep the file.']
        : []),
      fromTheWeb(text),
    ].join('\n'),
    {
      url: response.url,
      type: page.type,
      bytes: body.bytes.length,
      cut: isCut,
    },
  );
}

function cutToBytes(text: string, most: number): { text: string; cut: boolean } {
  const bytes = Buffer.from(text);
  if (bytes.length <= most) return { text, cut: false };
  // A character that was cut in two is left out.
  return { text: new TextDecoder().decode(bytes.subarray(0, most), { stream: true }), cut: true };
}
