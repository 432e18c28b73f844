# Sourced by lab/server and lab/client, inside a container that lab/run made: gives the machine a
# name, an /etc, a /dev, a /run and a /tmp of its own. The real machine is not changed.
#
#   machine LAB WORK DIR NAME    /srv/code (lab/, read only), /srv/work, /srv/NAME (DIR), and /etc

machine() {
  local lab=$1 work=$2 dir=$3 name=$4 room=$2/room d
  mount --make-rprivate /
  hostname "${LAB_NAME%%.*}"
  # Filled aside and then moved: any of the three may lie below /srv itself.
  mkdir -p "$room"
  mount -t tmpfs -o mode=755 lab "$room"
  mkdir "$room/code" "$room/work" "$room/$name" "$room/etc" "$room/dev"
  mount --bind "$lab" "$room/code"
  mount -o remount,bind,ro "$room/code"
  mount --bind "$work" "$room/work"
  mount --bind "$dir" "$room/$name"
  mount --move "$room" /srv
  work=/srv/work

  cp -a "$work/etc/." /srv/etc/
  mount --bind /srv/etc /etc
  rm -f /etc/hosts /etc/hostname /etc/mailname /etc/resolv.conf /etc/motd /etc/issue /etc/issue.net \
    /etc/nsswitch.conf /etc/ld.so.preload
  rm -rf /etc/update-motd.d
  echo "$LAB_NAME" >/etc/hostname
  echo "$LAB_NAME" >/etc/mailname
  echo 'Weir lab' | tee /etc/issue >/etc/issue.net
  printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
  printf 'search weir.test\nnameserver 10.99.0.1\noptions timeout:2 attempts:2\n' >/etc/resolv.conf
  printf 'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n' >/etc/nsswitch.conf
  # Of this machine's users only those that the packages brought.
  grep -E '^(root|daemon|bin|mail|nobody|www-data|_apt|ftp|sshd|dnsmasq|irc|dovecot|dovenull|opensmtpd|opensmtpq|tcpdump):' \
    "$work/etc/passwd" | sed 's/^root:.*/root:x:0:0:root:\/root:\/bin\/bash/' >/etc/passwd
  : >/etc/shadow
  chmod 600 /etc/shadow

  # A /dev of its own, for /dev/log and for terminals that are not this machine's.
  for d in null zero full random urandom tty; do
    : >"/srv/dev/$d"
    mount --bind "/dev/$d" "/srv/dev/$d"
  done
  mkdir /srv/dev/pts /srv/dev/shm
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts /srv/dev/pts
  ln -s pts/ptmx /srv/dev/ptmx
  ln -s /proc/self/fd /srv/dev/fd
  ln -s fd/0 /srv/dev/stdin
  ln -s fd/1 /srv/dev/stdout
  ln -s fd/2 /srv/dev/stderr
  mount --rbind /srv/dev /dev

  mount -t tmpfs -o mode=755 lab /run
  mount -t tmpfs -o mode=1777 lab /dev/shm
}

# Mounts that may hide the paths of the arguments come after it.
machine_home() {
  mount -t tmpfs -o mode=1777 lab /tmp
  mount -t tmpfs -o mode=700 lab /root
  mount -t tmpfs -o mode=755 lab /home
  export HOME=/root
  cd /
}
