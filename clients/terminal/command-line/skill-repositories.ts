/** Repositories of skills on the command line. */
import type { Command } from 'commander';
import { jsonOption, serverOption, withExample } from './describe.ts';

const nameMeaning = 'its name, or the id or enough of its end';

/** `skills repositories`. */
export function addSkillRepositories(skills: Command): void {
  const repositories = skills
    .command('repositories')
    .helpCommand(false)
    .description('Git repositories of skills, which the operator has read before runs are offered them.');
  withExample(repositories, 'service skills repositories list --server https://agents.example.com');
  addReading(repositories);
  addChanging(repositories);
}

/** `skills repositories list`, `sync` and `show`. */
function addReading(repositories: Command): void {
  withExample(
    repositories
      .command('list')
      .description('List them, the oldest first.')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) =>
        (await import('../commands/skill-repositories.ts')).listRepositories(options),
      ),
    'service skills repositories list --server https://agents.example.com',
  );
  withExample(
    repositories
      .command('sync')
      .description('Fetch one, and print what would change.')
      .argument('<repository>', nameMeaning)
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (name: string, options) =>
        (await import('../commands/skill-repositories.ts')).syncRepository(name, options),
      ),
    'service skills repositories sync house --server https://agents.example.com',
  );
  withExample(
    repositories
      .command('show')
      .description('Print what the last sync has found, without fetching anything.')
      .argument('<repository>', nameMeaning)
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (name: string, options) =>
        (await import('../commands/skill-repositories.ts')).showRepository(name, options),
      ),
    'service skills repositories show house --server https://agents.example.com',
  );
}

/** `skills repositories add`, `apply` and `remove`. */
function addChanging(repositories: Command): void {
  withExample(
    repositories
      .command('add')
      .description('Add one, fetch it, and print what is in it. Nothing of it is used yet.')
      .argument('<url>', 'where git serves it over https or http')
      .option('--name <name>', 'what it is called; the last part of the URL if absent')
      .option('--ref <ref>', 'a branch or a tag')
      .option('--folder <folder>', 'the folder of it that has the skills')
      .option('--commit <commit>', 'the only commit that is ever taken')
      .option('--username <name>', 'goes with the token; most servers ignore it')
      .option('--token', 'read a token that may read it, from the terminal or standard input')
      .addOption(serverOption())
      .action(async (url: string, options) =>
        (await import('../commands/skill-repositories.ts')).addRepository(url, options),
      ),
    'service skills repositories add https://git.example.com/house/skills.git --server https://agents.example.com',
  );
  withExample(
    repositories
      .command('apply')
      .description('Use what the last sync has shown, for all runs.')
      .argument('<repository>', nameMeaning)
      .option('--commit <commit>', 'the one that you have read; then nothing is asked')
      .option('-y, --yes', 'without asking')
      .addOption(serverOption())
      .action(async (name: string, options) =>
        (await import('../commands/skill-repositories.ts')).applyRepository(name, options),
      ),
    'service skills repositories apply house --server https://agents.example.com',
  );
  withExample(
    repositories
      .command('remove')
      .description('Remove one, with its token and its skills.')
      .argument('<repository>', nameMeaning)
      .option('-y, --yes', 'without asking')
      .addOption(serverOption())
      .action(async (name: string, options) =>
        (await import('../commands/skill-repositories.ts')).removeRepository(name, options),
      ),
    'service skills repositories remove house --server https://agents.example.com',
  );
}
