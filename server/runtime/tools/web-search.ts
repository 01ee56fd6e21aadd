// The tool that asks a search engine of the web.
import { z } from 'zod';
import { Problem } from '../../problem.ts';
import { defineTool, success } from './define-tool.ts';
import { fromTheWeb } from './foreign-text.ts';
import type { FindSearchEngine, SearchHit } from './search-engine.ts';
import { type Tool, ToolInputError } from './tool.ts';

export const webSearchName = 'web_search';

const input = z.strictObject({
  query: z.string().trim().min(1).max(400).describe('What to look for, in a few words'),
  max_results: z.int().min(1).max(20).optional().describe('How many results to give at most'),
});

/** Builds the `web_search` tool. */
export function webSearchTool(find: FindSearchEngine): Tool {
  return defineTool({
    name: webSearchName,
    description:
      'Searches the web and gives titles, URLs and a few lines of each result. Use fetch to read one of them.',
    idempotent: true,
    needsPermission: true,
    input,
    prepare({ query, max_results }, { workspacePath, signal }) {
      return {
        permission: {
          action: 'fetch',
          description: `Search the web for ${JSON.stringify(query)}`,
          path: workspacePath,
          params: { query, ...(max_results !== undefined && { max_results }) },
        },
        async run() {
          const engine = await find();
          if (!engine) throw new ToolInputError('There is no search engine any more.');
          const hits = await engine.search(query, max_results, signal).catch(told);
          if (hits.length === 0)
            return success(`Nothing was found for ${JSON.stringify(query)}.`, { results: 0 });
          return success(fromTheWeb(hits.map(listed).join('\n\n')), { results: hits.length });
        },
      };
    },
  });
}

function told(error: unknown): never {
  if (error instanceof Problem) throw new ToolInputError(error.message, { cause: error });
  throw error;
}

function listed({ title, url, snippet }: SearchHit, index: number): string {
  return [`${index + 1}. ${title}`, `   ${url}`, ...(snippet ? [`   ${snippet}`] : [])].join('\n');
}
