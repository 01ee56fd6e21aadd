/** Jobs on the command line. */
import { type Command, Option } from 'commander';
import { jsonOption, serverOption, withExample } from './describe.ts';

const idMeaning = 'the id, or enough of its end to tell it apart';

/** `jobs`. */
export function addJobs(program: Command): void {
  const jobs = program
    .command('jobs')
    .helpCommand(false)
    .description('Agents that a server runs at set times, and what became of it.');
  withExample(jobs, 'service jobs list --server https://agents.example.com');
  addReading(jobs);
  addMaking(jobs);
  addSteering(jobs);
}

/** `jobs list`, `jobs show` and `jobs runs`. */
function addReading(jobs: Command): void {
  withExample(
    jobs
      .command('list')
      .description('List the jobs, the latest first.')
      .addOption(
        new Option('--status <status>', 'only those in this state').choices([
          'active',
          'paused',
          'completed',
        ]),
      )
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/jobs.ts')).listJobs(options)),
    'service jobs list --status paused --server https://agents.example.com',
  );
  withExample(
    jobs
      .command('show')
      .description('Print a job, its next times, and its last run.')
      .argument('<id>', idMeaning)
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (id: string, options) => (await import('../commands/jobs.ts')).showJob(id, options)),
    'service jobs show 4b1tza --server https://agents.example.com',
  );
  withExample(
    jobs
      .command('runs')
      .description('List what became of the times of a job, the latest first.')
      .argument('<id>', idMeaning)
      .option('-n, --limit <number>', 'how many', '20')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (id: string, options) => (await import('../commands/jobs.ts')).listRuns(id, options)),
    'service jobs runs 4b1tza --server https://agents.example.com',
  );
}

/** `jobs create` and `jobs preview`. */
function addMaking(jobs: Command): void {
  withExample(
    scheduled(jobs.command('create').description('Have an agent run at set times.'))
      .argument('<prompt...>', 'what it is asked each time')
      .option('--name <name>', 'what the job is called; the beginning of the prompt if absent')
      .option('-a, --agent <slug>', 'the agent profile')
      .option('-m, --model <model>', 'as <provider>:<model>')
      .option('-s, --session <id>', 'go on with this session each time, instead of a new one')
      .option(
        '--allow <tool...>',
        'what it may do, as write or "bash:git log *"; nobody is there to be asked',
      )
      .addOption(
        new Option('--overlap <policy>', 'while the last run has not ended').choices([
          'skip',
          'queue',
          'replace',
        ]),
      )
      .addOption(
        new Option('--misfire <policy>', 'with times that were missed').choices([
          'skip',
          'run_once',
          'run_all',
        ]),
      )
      .option('--retries <number>', 'how often a run that failed is begun again')
      .option('--timeout <duration>', 'how long a run may take, as 90m')
      .action(async (prompt: string[], options) =>
        (await import('../commands/job-making.ts')).createJob(prompt, options),
      ),
    'service jobs create "Say what has changed." --cron "0 2 * * 1-5" --allow "bash:git log *" --server https://agents.example.com',
  );
  withExample(
    scheduled(jobs.command('preview').description('Print the next times of a schedule.'))
      .addOption(jsonOption())
      .action(async (options) => (await import('../commands/job-making.ts')).previewSchedule(options)),
    'service jobs preview --cron "30 2 * * SUN" --timezone Europe/Berlin --server https://agents.example.com',
  );
}

/** `jobs run`, `jobs pause`, `jobs resume` and `jobs delete`. */
function addSteering(jobs: Command): void {
  const steps = {
    run: 'Run a job now, beside its times.',
    pause: 'Let the times of a job pass, until it is resumed.',
    resume: 'Have a job run at its times again.',
  } as const;
  for (const [step, description] of Object.entries(steps))
    withExample(
      jobs
        .command(step)
        .description(description)
        .argument('<id>', idMeaning)
        .addOption(serverOption())
        .action(
          async (id: string, options) =>
            (await import('../commands/job-steering.ts')).steerJob(step as keyof typeof steps, id, options), // one of its keys
        ),
      `service jobs ${step} 4b1tza --server https://agents.example.com`,
    );
  withExample(
    jobs
      .command('delete')
      .description('Delete a job with the history of its runs; their sessions stay.')
      .argument('<id>', idMeaning)
      .option('-y, --yes', 'without asking')
      .addOption(serverOption())
      .action(async (id: string, options) =>
        (await import('../commands/job-steering.ts')).deleteJob(id, options),
      ),
    'service jobs delete 4b1tza --server https://agents.example.com',
  );
}

/** The options that say when. */
function scheduled(command: Command): Command {
  return command
    .option('--cron <pattern>', 'five fields, or six with seconds first')
    .option('--every <duration>', 'as 90m, 6h or 1d')
    .option('--at <moment>', 'once, as 2027-01-31T18:00')
    .option('--timezone <zone>', 'of the pattern, as Europe/Berlin; that of this machine if absent')
    .addOption(serverOption());
}
