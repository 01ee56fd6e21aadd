// The tool that asks a search engine of the web.
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import { fromTheWeb } from './foreign-text.ts';
import type { SearchEngine, SearchHit } from './search-engine.ts';
import type { Tool } from './tool.ts';

const input = z.strictObject({
  query: z.string().trim().min(1).max(500).describe('What to look for, in a few words'),
  max_results: z.int().min(1).max(20).default(10).describe('How many results to give'),
});

/** Builds the `web_search` tool. */
export function webSearchTool(engine: SearchEngine): Tool {
  return defineTool({
    name: 'web_search',
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
          params: { query, max_results },
        },
        async run() {
          const hits = await engine.search(query, max_results, signal);
          if (hits.length === 0)
            return success(`Nothing was found for ${JSON.stringify(query)}.`, { results: 0 });
          return success(fromTheWeb(hits.map(listed).join('\n\n')), { results: hits.length });
        },
      };
    },
  });
}

function listed({ title, url, snippet }: SearchHit, index: number): string {
  return [`${index + 1}. ${title}`, `   ${url}`, ...(snippet ? [`   ${snippet}`] : [])].join('\n');
}
