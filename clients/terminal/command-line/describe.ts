/** What the definitions of all subcommands have in common: examples, options of the same meaning, the name in help. */
import { type Command, Option } from 'commander';
import { calledAs } from '../next-command.ts';

/** Puts an example below the help of a command. */
export function withExample(command: Command, example: string): Command {
  return command.addHelpText('after', `\nExample:\n  $ ${example.replace(/\bservice\b/, calledAs())}`);
}

/** Prints JSON instead of what people read. */
export function jsonOption(): Option {
  return new Option('--json', 'print JSON, for programs');
}

/** For searches. */
export function rerankOption(): Option {
  return new Option(
    '--rerank <model>',
    'have this model put what is found into order, as <provider>:<model id>',
  );
}

/** Names a remote server; the variable does so for all commands of a shell. */
export function serverOption(): Option {
  const option = new Option(
    '--server <url>',
    'a server that you are logged in to, instead of the one inside this process',
  );
  // As with all variables, an empty one is none.
  return process.env.SERVICE_SERVER === '' ? option : option.env('SERVICE_SERVER');
}
