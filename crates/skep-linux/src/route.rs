//! Network interfaces, addresses and routes.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope,
    RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType};

const ANSWER_BYTES: usize = 8 * 1024;

/// A conversation with the kernel about the network namespace this was opened in, wherever
/// the thread goes afterwards.
#[derive(Debug)]
pub struct Routes {
    socket: OwnedFd,
    sequence: u32,
}

/// Hardware address of an Ethernet interface.
pub type HardwareAddress = [u8; 6];

/// A pair of interfaces to be made.
#[derive(Debug, Clone, Copy)]
pub struct VethPair<'a> {
    /// Name of this end.
    pub name: &'a str,
    /// Group of this end, to which packet filter rules refer.
    pub group: u32,
    /// Hardware address of this end. It is chosen, so that nobody on the host chooses another
    /// after a neighbour has learned it: udev does that with those that the kernel makes up.
    pub hardware_address: HardwareAddress,
    /// Name of the other end.
    pub peer_name: &'a str,
    /// Hardware address of the other end.
    pub peer_hardware_address: HardwareAddress,
    /// Network namespace in which the other end is made.
    pub peer_namespace: BorrowedFd<'a>,
}

impl Routes {
    /// Opens a conversation about the current network namespace.
    ///
    /// # Errors
    ///
    /// The error of `socket`.
    pub fn open() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            // Protocol 0 of this family is the one about routes.
            None,
        )?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// The number of an interface.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none of that name.
    pub fn index_of(&self, name: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(&self.socket, name)?)
    }

    /// Makes two connected interfaces and brings the one here up. The other one cannot be,
    /// before they are connected: whoever lives there does it.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is one of that name; else what the kernel says.
    pub fn make_veth_pair(&mut self, pair: VethPair<'_>) -> io::Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes = vec![
            LinkAttribute::IfName(pair.peer_name.into()),
            LinkAttribute::Address(pair.peer_hardware_address.into()),
            LinkAttribute::NetNsFd(pair.peer_namespace.as_raw_fd()),
        ];
        let mut link = LinkMessage::default();
        bring_up(&mut link);
        link.attributes = vec![
            LinkAttribute::IfName(pair.name.into()),
            LinkAttribute::Address(pair.hardware_address.into()),
            LinkAttribute::Group(pair.group),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        self.ask(
            RouteNetlinkMessage::NewLink(link),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    /// Makes a bridge and brings it up. Without ports it is an interface that only holds
    /// addresses.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is one of that name; else what the kernel says.
    pub fn make_bridge(&mut self, name: &str) -> io::Result<()> {
        let mut link = LinkMessage::default();
        bring_up(&mut link);
        link.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
        ];
        self.ask(
            RouteNetlinkMessage::NewLink(link),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    /// Brings an interface up.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn bring_up(&mut self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        bring_up(&mut link);
        self.ask(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Puts an interface into a group.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn set_group(&mut self, index: u32, group: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = vec![LinkAttribute::Group(group)];
        self.ask(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Removes an interface, and the other end if it is one of a pair. No error if it is gone
    /// already; the answer says whether it was there.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn delete_link(&mut self, name: &str) -> io::Result<bool> {
        let mut link = LinkMessage::default();
        link.attributes = vec![LinkAttribute::IfName(name.into())];
        match self.ask(RouteNetlinkMessage::DelLink(link), 0) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives an interface an address.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn add_address(&mut self, index: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix;
        message.header.index = index;
        message.attributes = vec![
            AddressAttribute::Local(IpAddr::V4(address)),
            AddressAttribute::Address(IpAddr::V4(address)),
        ];
        self.ask(
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }

    /// Sends what goes to `destination` over an interface, directly, and from an address of this
    /// host if one is named.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn add_route(
        &mut self,
        destination: (Ipv4Addr, u8),
        index: u32,
        source: Option<Ipv4Addr>,
    ) -> io::Result<()> {
        let mut message = route(RouteScope::Link);
        message.header.destination_prefix_length = destination.1;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet(destination.0)),
            RouteAttribute::Oif(index),
        ];
        let source = source.map(RouteAddress::Inet);
        message
            .attributes
            .extend(source.map(RouteAttribute::PrefSource));
        self.ask(
            RouteNetlinkMessage::NewRoute(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }

    /// Sends everything else to `gateway` over an interface, whether or not the gateway is
    /// in a network of it.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn add_default_route(&mut self, gateway: Ipv4Addr, index: u32) -> io::Result<()> {
        let mut message = route(RouteScope::Universe);
        message.header.flags = RouteFlags::Onlink;
        message.attributes = vec![
            RouteAttribute::Gateway(RouteAddress::Inet(gateway)),
            RouteAttribute::Oif(index),
        ];
        self.ask(
            RouteNetlinkMessage::NewRoute(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }

    /// Returns true if packets to this address stay on the host.
    ///
    /// # Errors
    ///
    /// The error of the kernel, such as `ENETUNREACH` if there is no way to it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign list that grows")]
    pub fn is_local(&mut self, address: Ipv4Addr) -> io::Result<bool> {
        let mut question = RouteMessage::default();
        question.header.address_family = AddressFamily::Inet;
        question.header.destination_prefix_length = 32;
        question.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet(address))];
        self.send(RouteNetlinkMessage::GetRoute(question), 0)?;
        let answer = self.receive()?;
        if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) = &answer {
            return Ok(route.header.kind == RouteType::Local);
        }
        Err(match answer {
            NetlinkPayload::Error(error) => error.to_io(),
            _ => io::ErrorKind::InvalidData.into(),
        })
    }

    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(message, NLM_F_ACK | flags)?;
        loop {
            if let NetlinkPayload::Error(error) = self.receive()? {
                return match error.code {
                    None => Ok(()),
                    Some(_) => Err(error.to_io()),
                };
            }
        }
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        rustix::net::send(&self.socket, &bytes, SendFlags::empty())?;
        Ok(())
    }

    /// The next message about what was asked last.
    fn receive(&self) -> io::Result<NetlinkPayload<RouteNetlinkMessage>> {
        let mut buffer = vec![0; ANSWER_BYTES];
        loop {
            let (length, _) = rustix::io::retry_on_intr(|| {
                rustix::net::recv(
                    self.socket.as_fd(),
                    buffer.as_mut_slice(),
                    RecvFlags::empty(),
                )
            })?;
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&buffer[..length])
                .map_err(io::Error::other)?;
            if message.header.sequence_number == self.sequence {
                return Ok(message.payload);
            }
        }
    }
}

fn bring_up(link: &mut LinkMessage) {
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
}

fn route(scope: RouteScope) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = scope;
    message.header.kind = RouteType::Unicast;
    message
}
