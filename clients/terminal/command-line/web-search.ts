/** Searching the web on the command line. */
import type { Command } from 'commander';
import { jsonOption, serverOption, withExample } from './describe.ts';

/** `web-search`. */
export function addWebSearch(program: Command): void {
  withExample(
    program
      .command('web-search')
      .description('Search the web as agents do: by SERVICE_WEB_SEARCH_URL, or as the server is set.')
      .argument('<words...>', 'what to look for')
      .option('-n, --limit <number>', 'how many results at most')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (words: string[], options) =>
        (await import('../commands/web-search.ts')).searchWeb(words, options),
      ),
    'service web-search the tallest lighthouse',
  );
}
