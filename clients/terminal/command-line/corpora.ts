/** Documents on the command line: corpora, what is added to them, and what is found in them. */
import type { Command } from 'commander';
import { jsonOption, rerankOption, serverOption, withExample } from './describe.ts';

const corpusMeaning = 'its name, or the id or enough of its end';

/** `corpora`. */
export function addCorpora(program: Command): void {
  const corpora = program
    .command('corpora')
    .helpCommand(false)
    .description('Documents that an agent answers from: service run --corpus cites them.');
  withExample(corpora, 'service corpora add ~/handbook');
  withExample(
    corpora
      .command('add')
      .description(
        'Take folders and files into a corpus, and wait until they can be found. What has changed since the last time is read anew.',
      )
      .argument('<files...>', 'folders, with all that is below them, and files')
      .option('-n, --name <corpus>', 'the corpus; called like the first folder if absent')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (files: string[], options) =>
        (await import('../commands/corpora-add.ts')).addToCorpus(files, options),
      ),
    'service corpora add ~/handbook ~/minutes/2026.pdf --name work',
  );
  withExample(
    corpora
      .command('list')
      .description('List the corpora, the latest first.')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/corpora.ts')).listCorpora(options)),
    'service corpora list',
  );
  withExample(
    corpora
      .command('search')
      .description(
        'Print the passages that answer a question; no model is asked but one that --rerank names.',
      )
      .argument('<corpus>', corpusMeaning)
      .argument('<question...>', 'a question, or words to look for')
      .option('-n, --limit <number>', 'how many', '5')
      .addOption(rerankOption())
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (corpus: string, question: string[], options) =>
        (await import('../commands/corpora.ts')).searchCorpus(corpus, question, options),
      ),
    'service corpora search handbook "How many days of holidays do I have?"',
  );
  withExample(
    corpora
      .command('delete')
      .description('Delete a corpus, and the copies of the files that were added to it.')
      .argument('<corpus>', corpusMeaning)
      .option('-y, --yes', 'without asking')
      .addOption(serverOption())
      .action(async (corpus: string, options) =>
        (await import('../commands/corpora.ts')).deleteCorpus(corpus, options),
      ),
    'service corpora delete handbook --yes',
  );
}
