/** Upkeep on the command line: what one looks at when something is odd, and what a shell wants to know. */
import { Argument, type Command } from 'commander';
import type { Shell } from '../commands/completion.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { jsonOption, withExample } from './describe.ts';

/** `logs`, `dirs`, `doctor`, `completion`, `version`. */
export function addUpkeep(program: Command, rebuild: () => Command): void {
  withExample(
    program
      .command('logs')
      .description('Print the log of this project.')
      .option('-f, --follow', 'go on as it grows')
      .option('-n, --tail <lines>', 'how many of the last lines', '100')
      .option('--json', 'as it is written, one line of JSON an event')
      .action(async (options) => (await import('../commands/logs.ts')).printLogs(options)),
    'service logs --follow',
  );
  withExample(
    program
      .command('dirs')
      .description('Print the folders and files that service uses here.')
      .addOption(jsonOption())
      .action(async (options) => (await import('../commands/dirs.ts')).printDirectories(options)),
    'service dirs',
  );
  withExample(
    program
      .command('doctor')
      .description('Look at everything that could be wrong here, and say how to mend it.')
      .addOption(jsonOption())
      .action(async (options) => (await import('../commands/doctor.ts')).examine(options)),
    'service doctor',
  );
  withExample(
    program
      .command('completion')
      .description('Print the completion script of a shell.')
      .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh', 'fish']))
      .action(async (shell: Shell) =>
        (await import('../commands/completion.ts')).printCompletion(shell, rebuild()),
      ),
    'source <(service completion bash)',
  ).addHelpText('after', whereCompletionGoes);
  withExample(
    program
      .command('version')
      .description('Print the version.')
      .action(async () => (await import('../commands/version.ts')).printVersion()),
    'service version',
  );
}

/** `help`. */
export function addHelp(program: Command, rebuild: () => Command): void {
  withExample(
    program
      .command('help')
      .description('Print the help of a command.')
      .argument('[command...]', 'as config set')
      .action(async (words: string[]) => {
        const named = words.reduce<Command | undefined>(
          (at, word) => at?.commands.find((one) => one.name() === word),
          program,
        );
        if (!named) throw unknownCommand(words);
        await rebuild().parseAsync([...words, '--help'], { from: 'user' });
      }),
    'service help config set',
  );
}

function unknownCommand(words: readonly string[]): CommandFailure {
  const message = `There is no command "${words.join(' ')}". service --help lists the commands.`;
  return new CommandFailure(message, exitCodes.usage);
}

const whereCompletionGoes = `
To have it in every shell:
  bash  echo 'source <(service completion bash)' >> ~/.bashrc
  zsh   service completion zsh > "\${fpath[1]}/_service"
  fish  service completion fish > ~/.config/fish/completions/service.fish`;
