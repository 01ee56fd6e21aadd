/** Memories on the command line. */
import { type Command, Option } from 'commander';
import { jsonOption, rerankOption, serverOption, withExample } from './describe.ts';

const scopes = ['user', 'workspace', 'session', 'agent'];
const kinds = ['fact', 'preference', 'instruction', 'episode'];

/** `memories`. */
export function addMemories(program: Command): void {
  const memories = program
    .command('memories')
    .helpCommand(false)
    .description('What people and agents want to be known in later conversations.');
  withExample(memories, 'service memories list');
  addReading(memories);
  addWriting(memories);
  addBulk(memories);
}

/** `memories list` and `memories search`. */
function addReading(memories: Command): void {
  withExample(
    named(memories.command('list').description('List what is remembered, the latest first.'))
      .option('--tag <tag>', 'only what has this tag')
      .option('-n, --limit <number>', 'how many', '20')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/memories.ts')).listMemories(options)),
    'service memories list --scope workspace',
  );
  withExample(
    named(memories.command('search').description('Find what is remembered by its words and its meaning.'))
      .argument('<question...>', 'words, or a question')
      .option('-n, --limit <number>', 'how many', '10')
      .addOption(rerankOption())
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (question: string[], options) =>
        (await import('../commands/memories.ts')).searchMemories(question, options),
      ),
    'service memories search "When do we deploy?"',
  );
}

/** `memories add` and `memories forget`. */
function addWriting(memories: Command): void {
  withExample(
    memories
      .command('add')
      .description('Remember something for later conversations.')
      .argument('<content...>', 'what is to be known, in a sentence or two')
      .addOption(new Option('--scope <scope>', 'who shares it').choices(scopes).default('user'))
      .addOption(new Option('--kind <kind>', 'what it is').choices(kinds).default('fact'))
      .option('--tag <tag...>', 'words to find it by')
      .option('-s, --session <id>', 'with the scope session: which one')
      .option('-a, --agent <slug>', 'with the scope agent: which profile')
      .option('--expires <moment>', 'when it is to be forgotten, as 2027-01-31')
      .addOption(serverOption())
      .action(async (content: string[], options) =>
        (await import('../commands/memories.ts')).addMemory(content, options),
      ),
    'service memories add "Deploys happen on Tuesdays." --scope workspace --tag deploys',
  );
  withExample(
    memories
      .command('forget')
      .description('Forget a memory with all of its versions.')
      .argument('<id>', 'the id, or enough of its end to tell it apart')
      .option('-y, --yes', 'without asking')
      .addOption(serverOption())
      .action(async (id: string, options) =>
        (await import('../commands/memories.ts')).forgetMemory(id, options),
      ),
    'service memories forget 4b1tza',
  );
}

/** `memories export`, `memories import` and `memories purge`. */
function addBulk(memories: Command): void {
  withExample(
    named(memories.command('export').description('Print what is remembered as JSON Lines, the oldest first.'))
      .option('--tag <tag>', 'only what has this tag')
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/memory-transfers.ts')).exportMemories(options)),
    'service memories export > memories.jsonl',
  );
  withExample(
    memories
      .command('import')
      .description('Remember what an export holds, each line for itself.')
      .argument('[file]', 'the JSON Lines; standard input if absent')
      .addOption(serverOption())
      .action(async (file: string | undefined, options) =>
        (await import('../commands/memory-transfers.ts')).importMemories(file, options),
      ),
    'service memories import memories.jsonl',
  );
  withExample(
    memories
      .command('purge')
      .description('Forget all memories of one owner.')
      .addOption(new Option('--scope <scope>', 'whose').choices(scopes).makeOptionMandatory())
      .option('-s, --session <id>', 'with the scope session: which one')
      .option('-a, --agent <slug>', 'with the scope agent: which profile')
      .option('-y, --yes', 'without asking')
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/memory-transfers.ts')).purgeMemories(options)),
    'service memories purge --scope user --yes',
  );
}

/** The options that say which memories are meant. */
function named(command: Command): Command {
  return command
    .addOption(new Option('--scope <scope>', 'only what these share').choices(scopes))
    .addOption(new Option('--kind <kind>', 'only what is of this kind').choices(kinds))
    .option('-s, --session <id>', 'only what is of this session')
    .option('-a, --agent <slug>', 'only what is for this agent profile');
}
