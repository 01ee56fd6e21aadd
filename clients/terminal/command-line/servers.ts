/** Servers on the command line: the one of this machine, and logins to others. */
import { type Command, Option } from 'commander';
import { withExample } from './describe.ts';

/** `serve`, `invite`, `audit`, and what is done to the data and the models of an installation. */
export function addServer(program: Command): void {
  withExample(
    program
      .command('serve')
      .description('Start the server in the foreground; service serve --help lists its settings.')
      .helpOption(false)
      .allowUnknownOption()
      .argument('[flags...]')
      .action(async (flags: string[]) => (await import('../commands/serve.ts')).serve(flags)),
    'service serve --port 8090',
  );
  withExample(
    program
      .command('invite')
      .description('Print a token that lets one person register on the server of this machine.')
      .helpOption(false)
      .allowUnknownOption()
      .argument('[flags...]')
      .action(async (flags: string[]) => (await import('../commands/serve.ts')).invite(flags)),
    'service invite --data-dir /var/lib/service',
  );
  const audit = withExample(
    program.command('audit').description('The audit log of the server of this machine.'),
    'service audit verify --data-dir /var/lib/service',
  );
  withExample(
    audit
      .command('verify')
      .description('Say whether anything in the audit log was changed or cut off.')
      .helpOption(false)
      .allowUnknownOption()
      .argument('[flags...]')
      .action(async (flags: string[]) => (await import('../commands/serve.ts')).verifyAudit(flags)),
    'service audit verify --data-dir /var/lib/service',
  );
  withExample(
    maintenance(
      program,
      'backup',
      'Copy the database of an installation to a file, while its servers are at work.',
    ).action(async (words: string[]) => (await import('../commands/serve.ts')).backup(words)),
    'service backup /backups/monday.db --data-dir /var/lib/service',
  );
  withExample(
    maintenance(
      program,
      'restore',
      'Put a backup in the place of the database; stop its servers first.',
    ).action(async (words: string[]) => (await import('../commands/serve.ts')).restore(words)),
    'service restore /backups/monday.db --data-dir /var/lib/service',
  );
  withExample(
    maintenance(
      program,
      'rotate-master-key',
      'Seal all stored secrets with a new master key, while servers are at work.',
    ).action(async (words: string[]) => (await import('../commands/serve.ts')).rotateMasterKey(words)),
    'service rotate-master-key --data-dir /var/lib/service',
  );
  const embedder = withExample(
    program
      .command('embedder')
      .description('The model of this machine that makes documents searchable by meaning.'),
    'service embedder install',
  );
  withExample(
    maintenance(
      embedder,
      'install',
      'Download the embedding model once; from then on it needs no network and no key.',
    ).action(async (words: string[]) => (await import('../commands/serve.ts')).installEmbedder(words)),
    'service embedder install --models-dir /srv/models',
  );
}

/** Takes the flags of the server, which knows them. */
function maintenance(program: Command, name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .helpOption(false)
    .allowUnknownOption()
    .argument('[words...]');
}

/** `login` and `logout`. */
export function addLogin(program: Command): void {
  withExample(
    program
      .command('login')
      .description(
        'Log in to a server, for --server: in the browser, by a code. The login is kept in the keyring of the system, or in a file that only you can read.',
      )
      .argument('[server]', 'its address, as https://service.example.com')
      .option('--server <url>', 'the same')
      .option('-e, --email <email>', 'your account; the password is asked for, or read from standard input')
      .option('--password', 'log in with e-mail address and password instead, which are asked for')
      .addOption(
        new Option('--api-key', 'read an API key from standard input instead').conflicts([
          'email',
          'password',
        ]),
      )
      .action(async (server: string | undefined, options) =>
        (await import('../commands/login.ts')).login(server, options),
      ),
    'service login https://service.example.com',
  );
  withExample(
    program
      .command('logout')
      .description('End the login to a server, there and here.')
      .argument('[server]', 'its address; may be left out where there is one login')
      .option('--server <url>', 'the same')
      .action(async (server: string | undefined, options) =>
        (await import('../commands/login.ts')).logout(server, options),
      ),
    'service logout https://service.example.com',
  );
}
