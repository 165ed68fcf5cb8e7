//! Programs that run other programs.
//!
//! Owns: which ones those are, and by which of their options others do so.
//! Promises: a program that starts what its arguments say is never let through
//! by its own name. Must not: look at the disk.

/// Why the allowlist does not speak for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Risk {
    /// A shell.
    Shell,
    /// It runs code: from an argument, its input, or files of the project.
    Interpreter,
    /// It starts what its arguments say.
    Wrapper,
    /// One of its arguments makes it start something.
    Option,
}

impl Risk {
    /// The word for clients.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Interpreter => "interpreter",
            Self::Wrapper => "wrapper",
            Self::Option => "exec-option",
        }
    }
}

const SHELLS: &str = "sh bash rbash dash zsh rzsh ksh rksh mksh pdksh lksh oksh loksh yash ash hush \
    csh tcsh fish rc es elvish nu nushell xonsh pwsh powershell busybox toybox posh sash osh ysh \
    oil scsh eshell murex ion";

const INTERPRETERS: &str = "python pythonw pypy ipython bpython perl raku ruby irb jruby erb node \
    nodejs deno bun bunx php php-cgi phpdbg lua luajit tclsh wish expect awk mawk nawk \
    original-awk bwk r rscript julia octave octave-cli ghc ghci runghc runhaskell stack cabal scala \
    groovy kotlin jshell java javac javaw erl erlc escript elixir iex mix racket guile sbcl clisp \
    ecl gforth ocaml opam swipl gprolog gdb lldb sqlite psql mysql mariadb mongo mongosh duckdb \
    clickhouse texlua texluac luatex luahbtex luajittex luajithbtex mtxrun dc m4 gnuplot ed red \
    ex vi vim vimdiff view rview rvim nvim gvim emacs emacsclient \
    nano pico micro helix hx kak joe jmacs mcedit mc ranger nnn lf vifm less more most pg man info \
    pinfo lynx w3m links elinks mutt neomutt mail mailx s-nail ftp tnftp lftp telnet nmap \
    tshark wireshark npm npx pnpm pnpx yarn pip pipx pipenv poetry pdm uv uvx rye hatch conda mamba \
    micromamba cargo rustc rustup go gcc g++ c++ cc cpp c89 c99 clang clang++ ld lld gold \
    tcc zig nim swift swiftc dmd ldc dotnet mono csc csi make remake bmake pmake cmake ctest \
    cpack ninja samu meson scons waf bazel bazelisk buck ant mvn mvnw gradle gradlew sbt lein boot \
    clojure clj rake gem bundle bundler composer artisan just task tox nox pytest py.test invoke \
    fab jest mocha vitest eslint prettier webpack vite rollup gulp grunt tsx ts-node tsc \
    ansible ansible-playbook terraform tofu packer vagrant pulumi puppet chef-client salt-call \
    cpan cpanm luarocks pecl pear phpunit apt apt-get aptitude dpkg dpkg-reconfigure yum \
    dnf rpm rpmbuild rpmspec rpmquery rpmverify rpmkeys rpmdb rpmsign rpmlua zypper pacman apk \
    brew port snap flatpak nix nix-shell nix-env nix-build \
    guix patch ack msgfilter latexmk osascript applescript swig convert magick \
    mogrify qjs quickjs d8 rhino coffee pry vlc mpv cvs git svn hg bzr darcs fossil \
    git-shell procmail formail crash openocd bpftrace stap dtrace sqlplus isql cqlsh k \
    q msfconsole msfvenom pdb ptpython scapy rename prename file-rename prove perldoc zless zmore \
    bzless bzmore xzless xzmore lzless lzmore tig lazygit vimtutor vipw vigr visudo sensible-editor \
    sensible-pager sensible-browser run-mailcap cscope ncdu pydoc pre-commit sphinx-build \
    uvicorn hypercorn daphne flask django-admin celery streamlit jupyter claude codex gemini \
    opencode aider goose mcporter xsubpp cfn-lint autoconf autoreconf automake autom4te aclocal \
    pylint flake8 mypy rspec rubocop rails jekyll mkdocs scrapy alembic playwright cypress phpstan \
    drush mlr goawk cloc gfortran f77 f95 flang gnat gnatmake gnatlink gprbuild gdc hub glab jj sl nx \
    turbo lerna babel stylelint ava tap parcel next nuxt astro cdk serverless karma nose2 behave \
    robot doit b2 xmake redo pants dagger mage build dart kotlinc scalac groovyc crystal janet hy \
    detekt jbang bb nbb im6 im7 conjure identify montage composite animate compare display import \
    stream gm sox soxi play rec lilypond";

const WRAPPERS: &str = "env sudo sudoedit doas su runuser pkexec gosu su-exec setpriv capsh sg newgrp \
    nohup timeout nice ionice chrt taskset numactl setsid stdbuf unbuffer time xargs parallel \
    flock chroot unshare nsenter setarch linux32 linux64 i386 \
    i486 i586 i686 x86_64 uname26 prlimit cgexec choom systemd-run systemd-nspawn systemctl \
    machinectl service initctl launchctl bwrap firejail proot fakeroot fakechroot faketime \
    eatmydata strace ltrace perf valgrind gdbserver rr heaptrack rlwrap script scriptlive \
    dbus-run-session dbus-launch xvfb-run ssh-agent watch entr at batch crontab run-parts \
    start-stop-daemon daemon daemonize supervise s6-svscan s6-setuidgid chpst setuidgid softlimit \
    envdir envuidgid tini dumb-init catchsegv torsocks torify proxychains proxychains4 tsocks aoss \
    padsp hyperfine dotenv direnv mise asdf rtx volta nvm fnm pyenv rbenv nodenv jenv ssh scp sftp \
    rsh rlogin rexec mosh autossh sshpass dropbear dbclient nc ncat netcat socat docker \
    docker-compose podman buildah nerdctl ctr runc crun lxc lxc-attach lxc-execute incus kubectl \
    oc helm k9s virsh qemu screen tmux byobu zellij dtach abduco xterm gnome-terminal konsole \
    xdg-open open gio gtk-launch start exo-open kde-open xdotool wmctrl mount fusermount sshfs \
    logrotate watchexec nodemon pm2 forever foreman overmind honcho concurrently chronic ts tsp \
    ifne lckdo vipe pee vidir zrun genie trickle cpulimit \
    cset wine wine64 box64 box86 ldd sotruss uclampset coresched setpgid pipesz enosys gprofng \
    gp-collect-app run0 agetty getty coredumpctl ghostscript gs systemd-inhibit systemd-cat \
    systemd-socket-activate systemd-notify uwsgi \
    gunicorn c_rehash gimp inkscape soffice libreoffice unoconv varnishncsa \
    cobc loginctl busctl gcore runcon newrole xinit startx \
    runsv runsvdir sv svc setlock rcp slsh with-contenv msgexec logsave help2man srun sbatch \
    salloc mpirun mpiexec orterun apptainer singularity distrobox toolbox sops debconf aws \
    gcloud gsutil az heroku eksctl terragrunt terramate helmfile skaffold tilt nomad consul etcdctl \
    rclone chezmoi yadm borg duplicity quilt debuild sbuild pbuilder coverage clawgate openclaw \
    savelog gpg-agent gpg-connect-agent ccache sccache distcc icecc bear mispipe niceload sem \
    trace-cmd turbostat pasta rootlesskit nsjail supervisord cross-env cross-env-shell nyc c8 \
    run-s run-p sshd caffeinate xcrun arch sandbox-exec ps2pdf ps2pdfwr ps2ps ps2ascii ps2epsi \
    pdf2ps pdf2dsc eps2eps dvipdf gsnd dbus-send gdbus qdbus schroot aa-exec";

/// Names that are ordinary words: what only has one in its own may be anybody's script
/// (`start-report`), or a tool for a machine (`x86_64-linux-gnu-objdump`).
const ORDINARY: &str = "arch at aws batch bear behave build compare coverage crystal daemon display \
    hub import mage next open parallel parcel pasta play rec robot screen script service start \
    stream tap time turbo watch i386 i486 i586 i686 x86_64";

/// Parts of a wrapper that are fine but for their options.
const TAME_PARTS: &str = "ssh-keygen ssh-keyscan";

/// Words of shells that start what stands behind them, or change what does.
const SHELL_WORDS: &str = "command builtin exec eval source . coproc trap alias set export declare \
    typeset readonly local unset shopt enable bind complete compgen hash type ulimit umask fc \
    mapfile readarray let if then else elif fi for while until do done case esac select \
    function in return break continue cd pushd popd logout exit wait jobs fg bg disown";

/// Programs that are fine but for some options: the option, written as a whole
/// (`--exec`) or as a letter (`-x`), which may stand among others; a word, or `@` for a
/// file with arguments.
const OPTIONS: &[(&str, &str)] = &[
    ("find", "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from"),
    ("fd", "-x -X --exec --exec-batch"),
    ("fdfind", "-x -X --exec --exec-batch"),
    ("rg", "--pre --pre-glob --hostname-bin"),
    ("ag", "--pager"),
    ("ugrep", "--filter --pager --view --config --save-config -Q --query"),
    ("ug", "--filter --pager --view --config --save-config -Q --query"),
    ("bat", "--pager --config-file --diff"),
    ("batcat", "--pager --config-file --diff"),
    ("delta", "--pager"),
    ("sort", "--compress-program"),
    ("split", "--filter"),
    ("install", "--strip-program -s --strip"),
    ("sdiff", "--diff-program"),
    ("diff3", "--diff-program"),
    ("cpio", "--rsh-command --to-command -F --file -O -I"),
    ("zip", "-T -TT --test --unzip-command"),
    ("rsync", "-e --rsh --rsync-path --daemon --config --dparam -M --remote-option"),
    ("wget", "-e --execute --use-askpass --config --rcfile"),
    ("tcpdump", "-z -Z"),
    ("dumpcap", "-z"),
    ("pandoc", "-F -L -d --filter --lua-filter --pdf-engine --defaults --data-dir --template"),
    ("openssl", "-engine -provider -provider-path -module -config engine fipsinstall"),
    ("ssh-keygen", "-D -w -P11"),
    (
        "gpg",
        "--photo-viewer --exec-path --pinentry-mode --agent-program --dirmngr-program \
        --keyserver-options --options --homedir --use-embedded-filename",
    ),
    ("gpgsm", "--agent-program --dirmngr-program --protect-tool-program --options --homedir"),
    // It has the options of the compiler.
    ("lto-dump", "-fplugin --plugin -iplugindir @"),
    // Behind the dashes are options of git.
    ("gh", "alias extension extensions ext codespace cs browse config --"),
    ("ip", "exec netns vrf -b -batch --batch -force"),
    ("journalctl", "--vacuum-files --pager"),
    ("mpost", "-t --tex"),
    // The directory of fonts names a program, too.
    ("groff", "-U -F"),
    ("nroff", "-U -F"),
    ("troff", "-U"),
    ("pic", "-U"),
    ("pdfmom", "-U -F"),
    ("pdfroff", "-U -F"),
    ("grog", "--run"),
    (
        "tar",
        "-I -F --to-command --checkpoint-action --use-compress-program --rsh-command \
        --rmt-command --info-script --new-volume-script",
    ),
    ("bsdtar", "-I --use-compress-program --option --options"),
    ("star", "-compress-program rsh rshopts"),
    ("ctags", "--options -options --etags-include"),
    ("xmllint", "--shell"),
    ("gpgtar", "--gpg --gpg-args"),
    ("mkfs", "-t --type"),
    ("fsck", "-t"),
    // They are read by a pager.
    ("dmesg", "-H --human"),
    ("curl", "-K --config --libcurl --engine"),
    ("sysctl", "-w --write -p --load"),
    ("exiftool", "-if -config -ee -p -execute -api -@"),
    ("ffmpeg", "-filter_script -filter_complex_script -init_hw_device"),
    (
        "aria2c",
        "--on-download-complete --on-download-start --on-download-stop --on-download-pause \
        --on-download-error --on-bt-download-complete --conf-path",
    ),
    (
        "yt-dlp",
        "--exec --exec-before-download --downloader --external-downloader --config-location \
        --config-locations --plugin-dirs --netrc-cmd --use-postprocessor",
    ),
    ("youtube-dl", "--exec --external-downloader --config-location"),
    ("ldconfig", "-f -C -r"),
    ("nft", "-f --file -i --interactive"),
    ("bpftool", "batch"),
    ("bridge", "-b -batch"),
    ("tc", "exec -b -batch"),
    ("fzf", "--preview --bind --with-shell --listen"),
    ("pidstat", "-e"),
    ("dmsetup", "--exec"),
    ("restic", "--password-command -o --option"),
    ("op", "run plugin"),
    ("doppler", "run"),
    ("aws-vault", "exec"),
    ("protoc", "--plugin @"),
    ("nm", "--plugin @"),
    ("ar", "--plugin @"),
    ("ranlib", "--plugin @"),
    ("addr2line", "@"),
    ("as", "@"),
    ("c++filt", "@"),
    ("dlltool", "@"),
    ("elfedit", "@"),
    ("gprof", "@"),
    ("objcopy", "--plugin @"),
    ("objdump", "--plugin @"),
    ("readelf", "@"),
    ("size", "--plugin @"),
    ("strings", "--plugin @"),
    ("strip", "--plugin @"),
    ("windres", "@"),
];

/// Programs that take the beginning of a word for the word.
const SHORTENING: &str = "ip tc bridge bpftool";

/// Whether a program with these arguments may start another one. `names` are
/// all the names that it goes by.
pub(super) fn risk(names: &[&str], args: &[String]) -> Option<Risk> {
    names.iter().find_map(|name| {
        let name = name.to_lowercase();
        readings(&name).into_iter().find_map(|name| of_name(name, args))
    })
}

/// The name itself, without its version (`python3.11`), and without the letter
/// before GNU tools (`gtar`).
fn readings(name: &str) -> Vec<&str> {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let mut readings = vec![name];
    if !bare.is_empty() {
        readings.push(bare);
    }
    readings.extend(name.strip_prefix('g'));
    readings.extend(bare.strip_prefix('g'));
    readings
}

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known == name)
}

fn of_name(name: &str, args: &[String]) -> Option<Risk> {
    const LOADERS: [&str; 5] = ["ld-linux", "ld-musl", "ld.so", "ld64.so", "ld-elf"];
    let is_loader = LOADERS.iter().any(|loader| name.starts_with(loader));
    if has(WRAPPERS, name) || has(SHELL_WORDS, name) || is_loader || is_kin(name) {
        return Some(Risk::Wrapper);
    }
    // `vim.basic`, `bash-static`, `python3-dbg`, `x86_64-linux-gnu-gcc-12`
    let pieces = name
        .split(['.', '-'])
        .flat_map(|piece| [piece, piece.trim_end_matches(|letter: char| letter.is_ascii_digit())])
        .filter(|piece| !has(ORDINARY, piece));
    for name in [name].into_iter().chain(pieces) {
        if has(SHELLS, name) {
            return Some(Risk::Shell);
        }
        if has(INTERPRETERS, name) {
            return Some(Risk::Interpreter);
        }
    }
    let is_caught = match name {
        "sed" => !is_tame_sed(args),
        // Without a dash the first word of tar is letters all the same.
        "tar" | "bsdtar" if args.first().is_some_and(|it| it.contains(['I', 'F'])) => true,
        "tar" | "star" | "mt" if args.iter().any(|arg| may_be_far(arg)) => true,
        _ if name.ends_with("tex") => args.iter().any(|arg| frees_tex(arg)),
        // `iptables`, `ip6tables-restore`, `ebtables-nft`
        _ if name.split('-').next().is_some_and(|head| head.ends_with("tables")) => {
            args.iter().any(|arg| is_one_of(arg, "-M --modprobe"))
        }
        _ => {
            OPTIONS
                .iter()
                .filter(|(known, _)| is_make_of(name, known))
                .any(|(_, options)| args.iter().any(|arg| is_one_of(arg, options)))
                || has(SHORTENING, name) && args.iter().any(|arg| begins_word(name, arg))
        }
    };
    is_caught.then_some(Risk::Option)
}

/// Another make of a wrapper, or a part of it: `sudo-rs`, `nc.traditional`.
fn is_kin(name: &str) -> bool {
    let head = name.split(['.', '-']).next().unwrap_or_default();
    head != name && has(WRAPPERS, head) && !has(ORDINARY, head) && !has(TAME_PARTS, name)
}

/// Whether an option lets TeX run programs. Each may be cut short, and begin with
/// one dash or two.
fn frees_tex(arg: &str) -> bool {
    const FREEING: [&str; 4] = ["shell-escape", "enable-write18", "cnf-line", "lua"];
    let Some(given) = arg.strip_prefix('-') else { return false };
    let given = given.trim_start_matches('-').split('=').next().unwrap_or_default();
    given.starts_with("lua")
        || !given.is_empty() && FREEING.iter().any(|option| option.starts_with(given))
}

/// Whether an argument may name an archive of another machine, which a remote shell reaches: it
/// takes what stands before the colon for a host, or for an option of its own.
fn may_be_far(arg: &str) -> bool {
    arg.split('/').next().is_some_and(|head| head.contains(':'))
}

/// Whether it is this program, also for another machine (`x86_64-linux-gnu-objdump`).
fn is_make_of(name: &str, known: &str) -> bool {
    name.strip_suffix(known).is_some_and(|before| before.is_empty() || before.ends_with('-'))
}

/// Whether an argument may mean a word of this program that starts others.
fn begins_word(name: &str, arg: &str) -> bool {
    let own = OPTIONS.iter().filter(|(known, _)| *known == name);
    let mut words = own.flat_map(|(_, options)| options.split_whitespace());
    !arg.is_empty() && words.any(|word| !word.starts_with('-') && word.starts_with(arg))
}

/// Whether an argument is one of the options: as written, with one dash or two, with a
/// value behind it, cut short as long options may be, or a letter among others.
fn is_one_of(arg: &str, options: &str) -> bool {
    let head = arg.split('=').next().unwrap_or(arg);
    options.split_whitespace().any(|option| {
        if head == option || (option == "@" && arg.starts_with('@')) {
            return true;
        }
        if let Some(long) = option.strip_prefix("--") {
            let given = head.strip_prefix("--").unwrap_or_default();
            let is_other = head.strip_prefix('-') == Some(long);
            return is_other || !given.is_empty() && long.starts_with(given);
        }
        let Some(letters) = option.strip_prefix('-') else { return false };
        let is_short = letters.chars().count() == 1;
        if !is_short {
            // `-exec` of find and its like: also as the beginning of a longer word.
            let single = if head.starts_with("--") { head.get(1..).unwrap_or(head) } else { head };
            return single.starts_with(option);
        }
        let given = arg.strip_prefix('-').filter(|given| !given.starts_with('-'));
        given.is_some_and(|given| given.contains(letters))
    })
}

/// Only lines by number: printed, left out, or the end.
fn is_tame_sed(args: &[String]) -> bool {
    let is_option = |arg: &&String| matches!(arg.as_str(), "-n" | "--quiet" | "--silent");
    let mut rest = args.iter().skip_while(is_option);
    let Some(script) = rest.next() else { return false };
    let fits = |c: char| c.is_ascii_digit() || matches!(c, ',' | '$' | ';' | 'p' | 'd' | 'q' | '=');
    !script.is_empty() && script.chars().all(fits) && rest.all(|file| !file.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> Option<Risk> {
        let mut words = command.split_whitespace().map(str::to_owned);
        let name = words.next().unwrap();
        risk(&[&name], &words.collect::<Vec<_>>())
    }

    #[test]
    fn a_program_that_runs_others_is_known_by_any_of_its_names() {
        assert_eq!(of("bash"), Some(Risk::Shell));
        assert_eq!(of("python3.11 x.py"), Some(Risk::Interpreter));
        assert_eq!(of("Perl5.36"), Some(Risk::Interpreter));
        assert_eq!(of("gawk x"), Some(Risk::Interpreter));
        assert_eq!(of("gtimeout 1 x"), Some(Risk::Wrapper));
        assert_eq!(of("ld-linux-x86-64.so.2 x"), Some(Risk::Wrapper));
        assert_eq!(risk(&["ls", "dash"], &[]), Some(Risk::Shell));
        assert_eq!(of("sudo-rs id"), Some(Risk::Wrapper));
        assert_eq!(of("nc.traditional -e id"), Some(Risk::Wrapper));
        for own in [
            "ssh-keygen -l",
            "ssh-keyscan host",
            "start-report",
            "x86_64-linux-gnu-nm x",
            "ls",
            "aws-vault list",
            "coverage-report",
            "build-report",
            "docs-next",
            "docs-compare",
        ] {
            assert_eq!(of(own), None, "{own}");
        }
        assert_eq!(of("go"), Some(Risk::Interpreter));
        assert_eq!(of("git status"), Some(Risk::Interpreter));
        assert_eq!(of("pydoc3.11 -w x"), Some(Risk::Interpreter));
        assert_eq!(of("mpirun.openmpi id"), Some(Risk::Wrapper));
        assert_eq!(of("build"), Some(Risk::Interpreter));
        assert_eq!(of("identify-im6.q16 msl:x"), Some(Risk::Interpreter));
        assert_eq!(of("ps2pdf14 -dNOSAFER x"), Some(Risk::Wrapper));
        assert_eq!(of("x86_64-linux-gnu-gfortran-12 x.f"), Some(Risk::Interpreter));
    }

    #[test]
    fn an_option_is_found_however_it_is_written() {
        for command in [
            "find . -exec id",
            "find . -execdir id",
            "sort --compress-program=id x",
            "sort --compress-prog id x",
            "sort --comp=id x",
            "tar -xIid -f x",
            "tar xIf id x",
            "tar -x --to-comm=id",
            "tar -tf -oProxyCommand=id:x",
            "gtar xf h:x",
            "tar --file=u@h:/x -x",
            "fd -Hx id",
            "rsync -ae id a b",
            "sed s/x/y/e",
            "sed -n 1e",
            "sed -f x",
            "rg --pre id x",
            "ip netns exec a b",
            "pdflatex -shell-esc x",
            "xetex --shell-escape x",
            "lualatex --luaonly x",
            "tex -cnf-line=shell_escape=t x",
            "groff -TU x",
            "ip6tables-restore -M id",
            "iptables --modprobe=id -L",
            "aws-vault exec x -- id",
            "openssl list --provider-path . --provider x",
            "openssl req --engine=x",
            "openssl req --config x",
            "openssl fipsinstall -in x",
            "openssl fipsinstall -module=x",
            "gpgsm --agent-prog x",
            "gh repo clone x -- -c y=z",
            "x86_64-linux-gnu-lto-dump-12 --plugin=x y",
            "xmllint -shell x",
            "nm @x",
            "objdump -d @x",
            "x86_64-linux-gnu-objcopy @x",
            "x86_64-linux-gnu-nm --plugin x y",
            "protoc @x",
            "exiftool -@ x",
            "ip netn exe a b",
            "ip v e a b",
            "tc ex bpf x",
            "bridge -batch x",
            "bpftool bat file x",
            "gpgtar --gpg ./x -c d",
            "mkfs -t a/../evil x",
            "dmesg -TH",
            "dmesg --human",
        ] {
            assert_eq!(of(command), Some(Risk::Option), "{command}");
        }
        for command in [
            "find . -name x",
            "sort -n x",
            "tar -tf x",
            "tar -xf ./a:b -C c/d:e",
            "sed -n 1,5p x",
            "rg -n x",
            "fd x",
            "rsync -av a b",
            "ip addr",
            "pdflatex -interaction=nonstopmode x",
            "groff -man x",
            "iptables -nvL",
            "aws-vault list",
            "openssl x509 -in x -noout",
            "openssl rsa -in x -modulus",
            "lto-dump-12 -list x",
            "gh pr list --limit 5",
            "objdump -d x",
            "ip route show dev eth0",
            "tc qdisc show",
            "dmesg -T",
            "mkfs.ext4 x",
        ] {
            assert_eq!(of(command), None, "{command}");
        }
    }
}
